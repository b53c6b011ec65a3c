"""What the scenarios of the suite ask of a server: tools, prompts, resources and ways to change their lists."""
