"""The application that test fleets run."""
