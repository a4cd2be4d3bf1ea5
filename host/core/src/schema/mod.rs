//! Working with encoded values by their type tables: picking fields, encoding keys, transcoding.
