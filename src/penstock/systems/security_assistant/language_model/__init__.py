"""A language model as the agents of a job, in the order of a question.

page_images.py  a page of a drawing as a picture
answers.py      what a model may answer, and the questions
endpoint.py     one question to an OpenAI-compatible endpoint: retries, repairs, tokens, the budget
agents.py       the agents that ask, and which of them a job gets
stand_in.py     a stand-in for an endpoint, for the demo
options.py      the same on the command line
"""
