"""What only the elected leader runs: it sheds, places and splits bundles."""
