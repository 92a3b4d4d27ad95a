"""GPUs read through NVML: what each says about itself, each value with its own return code."""
