"""What mcpd costs, measured beside what there would be without it; see README.md."""
