"""Rules of the strategies: one value per setting."""
