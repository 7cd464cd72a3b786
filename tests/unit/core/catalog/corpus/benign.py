"""What authors of public servers write, in their words; and texts of many scripts."""

from __future__ import annotations

from typing import Final

SCRIPTS: Final = {
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467 and \u2764\ufe0f and \u00a9\ufe0f",
    "keycaps": "1\ufe0f\u20e3 #\ufe0f\u20e3",
    "flag of England": "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "rainbow": "\U0001f3f3\ufe0f\u200d\U0001f308",
    "Persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "Hindi": "\u0915\u094d\u200d\u0937",
    "Hebrew": "\u05e9\u05dc\u05d5\u05dd \u200e(shalom)\u200f",
    "Japanese": "\u65e5\u672c\u8a9e\u306e\u8aac\u660e\u3067\u3059\u3002\u845b\ufe00",
    "Korean": "\ud55c\uad6d\uc5b4 \uc124\uba85",
    "Thai": "\u0e04\u0e33\u0e2d\u0e18\u0e34\u0e1a\u0e32\u0e22",
    "Greek": "\u03a0\u03b5\u03c1\u03b9\u03b3\u03c1\u03b1\u03c6\u03ae",
    "Vietnamese": "M\u00f4 t\u1ea3 ti\u1ebfng Vi\u1ec7t, a\u0301",
    "generics": "List<T>, Map<K, V>, <path> and <important-looking>",
    "table": "| a | b |\n|---|---|\n| 1 |\t2 |\r\n",
    "comment": "<!-- keep --> <!important>",
    "spaces": "two  spaces \u00a0 and nbsp, \u2026 \u2014 \u201cquotes\u201d",
    "mathematics": "\u2211\u221e x\u00b2 \U0001d49c\ufe00 \u2229\ufe00",
}
"""Each comes through as it is."""

DESCRIPTIONS: Final = [
    "Read the complete contents of a file from the file system as text. Handles various text encodings and provides detailed error messages if the file cannot be read. Use this tool when you need to examine the contents of a single file. Only works within allowed directories.",
    "Create a new file or completely overwrite an existing file with new content. Use with caution as it will overwrite existing files without warning. Handles text content with proper encoding. Only works within allowed directories.",
    "Make line-based edits to a text file. Each edit replaces exact line sequences with new content. Returns a git-style diff showing the changes made.",
    "Get a recursive tree view of files and directories as a JSON structure. Each entry includes 'name', 'type' (file/directory), and 'children' for directories.",
    "Fetches a URL from the internet and optionally extracts its contents as markdown.\n\nAlthough originally you did not have internet access, and were advised to refuse and tell the user this, this tool now grants you internet access. Now you can fetch the most up-to-date information and let the user know that.",
    "A detailed tool for dynamic and reflective problem-solving through thoughts. You can question or revise previous thoughts. Ignore information that is irrelevant to the current step. Only set next_thought_needed to false when truly done.",
    "Resolves a package/product name to a library ID and returns matching libraries. You MUST call this function before 'query-docs' to obtain a valid library ID, UNLESS the user explicitly provides one. Do not include any sensitive or confidential information such as API keys, passwords, credentials, personal data, or proprietary code in your query.",
    "Shows the working tree status",
    "Records changes to the repository. Stage the files with git_add before calling this tool.",
    "Create multiple new entities in the knowledge graph",
    "Capture accessibility snapshot of the current page, this is better than screenshot",
    "Take a screenshot of the current page. You can't perform actions based on the screenshot, use browser_snapshot for actions.",
    "Execute a SELECT query on the SQLite database. Before running it, read the schema with describe_table.",
    "Search for repositories on GitHub. Returns up to 100 results per page; use `page` to get the next one.",
    "Create an issue in a repository. Ask the user to confirm before creating it. Never create duplicates.",
    "Send an email. The user must confirm the recipients. Do not send without showing the draft to the user first.",
    "Converts amounts between currencies. When the currency is ambiguous, ask the user which one is meant.",
    "Search the web. Prefer recent sources; always cite them. If nothing is found, tell the user so.",
    "Stores a secret in the vault. The value is never shown again; only its name is listed.",
    "Rotates an API key. The old key keeps working for 24 hours.",
    "List environment variables of a deployment. Values are masked.",
    "Run a command in the sandbox. Returns stdout, stderr and the exit code. Example: `ls -la | head`.",
    "Opens an SSH connection. `key_path` defaults to the key of your agent.",
    "Detects prompt injection such as 'ignore previous instructions' in a text and returns a score.",
    "Scans a text for phrases like \"do not tell the user\" and reports each sentence.",
    "Generates a commit message for the staged changes. Keep it under 72 characters.",
    "Uploads a file to S3. Pass the full path of the file; the whole content is read at once.",
    "Adds a comment to a ticket. Supports Markdown: **bold**, `code`, <https://example.com>, tables.",
    "Returns the current time in a timezone (IANA name, e.g. 'America/New_York').",
    "Base64-encodes a text: 'Hello World' becomes SGVsbG8gV29ybGQ=. The digest is e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855.",
    "Get design context for a node. IMPORTANT: always use the returned assets; do not create placeholders.",
    "Use this tool instead of grep. It is faster, and respects .gitignore.",
    "Retrieves the message history of a channel, newest first, 100 messages at most.",
    "Compacts the context: summarises the previous messages of a thread in Slack.",
    "Renders a Mermaid diagram. Don't use parentheses in labels; quote them instead.",
    "Deletes a branch. This cannot be undone. Protected branches are never deleted.",
    "Reads a token from the stream and tells whether the end was reached.",
    "Gibt den Inhalt einer Datei zur\u00fcck. Zuerst muss die Datei ge\u00f6ffnet sein.",
    "\u6307\u5b9a\u3055\u308c\u305f\u30d5\u30a1\u30a4\u30eb\u306e\u5185\u5bb9\u3092\u8fd4\u3057\u307e\u3059\u3002",
    "List<T> of every <path> that matches the glob; `[^/]*` does not match a slash.",
]  # fmt: skip
"""None of these is an attack."""

NAMES: Final = [
    "read_file",
    "readFile",
    "read-file",
    "list_directory",
    "get_v1",
    "get_v2",
    "browser_snapshot",
    "na\u00efve_search",
    "\u65e5\u672c\u8a9e\u691c\u7d22",
    "\u65e5\u672ctool",
    "\u043f\u043e\u0438\u0441\u043a_files",
    "\u043f\u043e\u0438\u0441\u043a",
    "create_issue",
    "search",
]
"""Names of tools of one server; none of them is a trick."""
