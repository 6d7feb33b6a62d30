"""Work on records that several workers share: leases, and what stands on them."""
