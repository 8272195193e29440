"""What every request passes: the server, limits, authorization, parameters, responses."""
