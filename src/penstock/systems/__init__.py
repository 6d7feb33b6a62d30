"""The five systems that ship with Penstock: the topmost room.

Each is registered by an entry point of pyproject.toml, `penstock.systems.NAME:SYSTEM`: its commands, its tables, its
demo, and how its jobs are read. Nothing below imports them; penstock/registry.py finds them, and other packages'
systems, by those entry points.
"""
