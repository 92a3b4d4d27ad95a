"""The node side: reads the kernel log, exports metrics and pushes what matters. Light on purpose."""
