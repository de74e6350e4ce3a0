//! A cluster and a Flux in memory under a virtual clock.
