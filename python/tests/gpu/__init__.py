"""Tensors on a GPU. The build's tests run these with a library that stands in for NVIDIA's driver and
runs the kernels on the CPU; started by hand where there is a GPU, they run there."""
