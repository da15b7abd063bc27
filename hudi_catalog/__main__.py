"""`python -m hudi_catalog`: the command line where its script is not on the path."""

from hudi_catalog.cli.main import main

if __name__ == "__main__":
    main()
