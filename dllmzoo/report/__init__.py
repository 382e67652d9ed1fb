"""Looking at runs: the report, the denoising viewer, figures, the live page of a job."""
