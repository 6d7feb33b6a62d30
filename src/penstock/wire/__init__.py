"""DynamoDB's vocabulary: values, numbers, keys, sizes, limits."""
