"""One suite for every `FleetStore`: no test knows which kind it runs on."""
