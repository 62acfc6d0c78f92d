"""`python -m slipstream`: the command line."""

from launch.main import main

if __name__ == "__main__":
  main()
