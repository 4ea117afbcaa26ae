"""What is said about a run: the run record, and the reports that are drawn from it and from nothing else."""
