"""What is damaged in a database file, and a new file of what is not: `penstock repair`."""
