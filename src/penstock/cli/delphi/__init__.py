"""The commands of `penstock delphi`."""
