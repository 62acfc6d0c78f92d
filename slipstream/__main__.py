"""`python -m slipstream`: the command line."""

from slipstream.main import main

if __name__ == "__main__":
  main()
