//! From a fleet repository and a bundle to rendered trees of files.
