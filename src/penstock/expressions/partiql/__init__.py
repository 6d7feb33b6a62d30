"""PartiQL as DynamoDB speaks it: text to tree, and a tree's parts to the evaluators of `penstock.expressions`."""
