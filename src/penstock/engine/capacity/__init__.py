"""The simulation of throughput.

consumption.py    what a call has used, by table, index and key
throttling.py     the limits of a table, an index and its partitions; calls that exceed them are throttled
hot_keys.py       which keys and partitions are used most
"""
