"""Does a broker process keep the promises of the data-plane API?"""
