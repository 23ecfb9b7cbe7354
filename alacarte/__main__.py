"""`python -m alacarte` is the command `alacarte`."""

from alacarte.cli.main import main

if __name__ == "__main__":
    main()
