"""The widgets: what the page is made of. Needs Panel, and Bokeh with it."""
