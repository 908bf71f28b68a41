"""The page: results that someone who has not read the paper can read, in one file, offline."""
