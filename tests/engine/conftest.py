"""Tests of the engine, by its sub-packages. The modules beside this one are what they share."""
