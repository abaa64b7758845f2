"""`python -m tailorbird` is the command `tailorbird`."""

from tailorbird.cli import main

if __name__ == "__main__":
    main()
