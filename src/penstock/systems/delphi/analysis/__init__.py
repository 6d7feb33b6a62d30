"""From comments to topics with names, in the order in which a run does it.

conversation.py  comments.csv, as a Pol.is export has it
languages.py     the language of comments, and their words that say something
votes.py         participants-votes.csv and summary.csv: agreement, division, opinion groups
embeddings.py    comments to vectors
projection.py    vectors to the graph of neighbours, and to a map
layout.py        that graph to coordinates
clusters.py      vectors to layers of clusters
keywords.py      what a group of comments says more than the others
topics.py        clusters to topics, and their names
map_picture.py   the map as a picture
libraries.py     the libraries of the `delphi` extra, imported when a run needs them
"""
