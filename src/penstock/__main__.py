"""`python -m penstock`."""

from penstock.cli.main import main

if __name__ == "__main__":  # not in a worker process, which imports this file too
    main()
