"""Table contracts, files on disk or S3, vectors, snapshots."""
