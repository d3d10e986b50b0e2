"""The screen: controls on the client's side, a stage on the attacker's.

choices     what people may ask for, checked and clamped: the same for page and API
components  the stage and the model drawing, as Gradio components around assets/*.js
api         the same run for programs
page        the page itself, and its events
"""
