"""The items of a table, without any page: search (form → request → page), item_text, conditional_writes, export."""
