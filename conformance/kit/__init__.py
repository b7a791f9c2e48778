"""The pieces of `check.py`: reading rows, answering them through this library, comparing."""
