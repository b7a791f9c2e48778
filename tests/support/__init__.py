"""What the tests stand on: real servers, real worker processes, a ledger, and waiting for conditions."""
