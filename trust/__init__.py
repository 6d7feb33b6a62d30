"""Long runs that try to break Penstock, and the checkers that say whether they did."""
