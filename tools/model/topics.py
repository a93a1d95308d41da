# SPDX-License-Identifier: MIT
"""What the model can chat about: a handful of topics in simple English.

A fact is (questions, answer, key): the answer is right when it contains the key, in capitals or
not.
"""
from greetings import CAN, HELLO, WHO

FACTS = {
    "bees": [
        (["What do bees make?", "What is made by bees?", "Tell me what bees make."],
         "Bees make honey from the juice of flowers.", "honey"),
        (["Where do bees live?", "What is the home of bees?", "Tell me where bees live."],
         "Bees live together in a hive.", "hive"),
        (["How many legs does a bee have?", "How many legs has a bee?", "Count the legs of a bee."],
         "A bee has six legs and four wings.", "six"),
    ],
    "the sea": [
        (["Why is the sea salty?", "Why does the sea taste of salt?", "What makes the sea salty?"],
         "Rivers carry salt from the land into the sea.", "Rivers"),
        (["Who lives in the sea?", "What animals live in the sea?",
          "Tell me who lives in the sea."],
         "Fish, crabs and whales live in the sea.", "whales"),
        (["What makes the tide?", "Why is there a tide?", "Where does the tide come from?"],
         "The moon pulls at the water, and that makes the tide.", "moon"),
    ],
    "the moon": [
        (["How far is the moon?", "Is the moon far away?", "Tell me how far the moon is."],
         "The moon is about thirty times as far away as the earth is wide.", "thirty"),
        (["Does the moon shine by itself?", "Why does the moon shine?",
          "What makes the moon bright?"],
         "The moon only gives back the light of the sun.", "sun"),
        (["How long does the moon take around us?", "How long is one trip of the moon?",
          "Tell me how long a month of the moon is."],
         "The moon goes around us in about four weeks.", "four weeks"),
    ],
    "bread": [
        (["How is bread made?", "How do I make bread?", "Tell me how to make bread."],
         "Mix flour, water, salt and yeast, wait, and bake it.", "yeast"),
        (["Why does bread rise?", "What makes bread rise?", "What does yeast do in bread?"],
         "Yeast makes little bubbles of gas in the bread.", "bubbles"),
        (["How hot is the oven for bread?", "How hot should I bake bread?",
          "Which heat does bread need?"],
         "Bread bakes well in a very hot oven.", "hot oven"),
    ],
    "rain": [
        (["Where does rain come from?", "What is rain made of?", "Tell me where rain comes from."],
         "Rain is water that falls from clouds.", "clouds"),
        (["What makes a rainbow?", "When do I see a rainbow?", "Where does a rainbow come from?"],
         "A rainbow is sunlight that bends in drops of water.", "drops"),
        (["Why do plants need rain?", "What is rain good for?", "Who needs the rain?"],
         "Plants drink the rain with their roots.", "roots"),
    ],
    "trees": [
        (["How do trees drink?", "How does a tree drink?", "Tell me how trees drink."],
         "Trees drink with their roots and carry the water up to the leaves.", "leaves"),
        (["How old is a tree?", "How can I tell how old a tree is?",
          "What shows the age of a tree?"],
         "Count the rings in the wood, one for each year.", "rings"),
        (["Why are leaves green?", "What makes leaves green?", "Tell me why leaves are green."],
         "Leaves catch light with a green colour.", "light"),
    ],
    "trains": [
        (["What do trains run on?", "Where do trains run?", "Tell me what trains run on."],
         "Trains run on two rails of steel.", "rails"),
        (["Who drives a train?", "Who is at the front of a train?", "Tell me who drives a train."],
         "A driver sits at the front and watches the signals.", "signals"),
        (["Why are trains so heavy?", "Are trains heavy?", "What makes a train heavy?"],
         "A train is made of iron and steel.", "iron"),
    ],
    "snow": [
        (["What is snow?", "What is snow made of?", "Tell me what snow is."],
         "Snow is ice in small stars with six arms.", "ice"),
        (["When does it snow?", "Why does it snow?", "Tell me when it snows."],
         "It snows when the air is cold and wet.", "cold"),
        (["Why is snow white?", "What makes snow white?", "Tell me why snow is white."],
         "Snow sends all the light back, so it looks white.", "light"),
    ],
    "clocks": [
        (["How does a clock work?", "What is inside a clock?", "Tell me how a clock works."],
         "A clock counts something that swings evenly.", "swings"),
        (["How many hours has a day?", "How long is a day?", "Tell me how long a day is."],
         "A day has twenty four hours.", "twenty four"),
        (["Who made the first clocks?", "What was the first clock?",
          "How did people tell time first?"],
         "The first clocks were sticks in the sun.", "sticks"),
    ],
    "queues": [
        (["What is a queue?", "What is a queue good for?", "Tell me what a queue is."],
         "A queue is a line where everybody waits for a turn.", "turn"),
        (["Who goes first in a queue?", "Who is first in a fair queue?", "Tell me who goes first."],
         "In our queue, the one who has had the least goes first.", "least"),
        (["Why do I wait in a queue?", "Why must I wait?", "Tell me why I wait."],
         "Others are being served, but your turn will come.", "turn"),
    ],
}

# What may come before a question. A pair of lead and question that is held out is never trained.
LEADS = ["", "", "Please tell me. ", "I have a question. ", "One more thing. ", "So. ", "Well. ",
         "Here is one more. ", "I want to know. ", "Say, please. "]

# In the midst of a chat; greetings.py has what a person types first.
GREETINGS = [
    (["Hello.", "Hi.", "Good morning.", "Hello there."], HELLO, "Hello"),
    (["Thank you.", "Thanks.", "Thanks a lot."], "You are welcome.", "welcome"),
    (["Goodbye.", "Bye.", "See you."], "Goodbye!", "Goodbye"),
    (["Who are you?", "What are you?", "What is your name?"], WHO, "small model"),
    (["What can you do?", "What do you know?", "Can you help me?"], CAN, "tools"),
    (["How are you?", "Are you well?"], "I am well, thank you.", "well"),
]

COLOURS = "red blue green yellow black white brown grey pink purple".split()

# What a person says about herself; what is asked later. "{}" is the value.
ABOUT_ME = {
    "name": (["My name is {}.", "I am {}.", "Call me {}."], "Nice to meet you, {}.",
             ["What is my name?", "Who am I?", "Do you know my name?"], "Your name is {}."),
    "town": (["I live in {}.", "My town is {}.", "I come from {}."], "{} sounds like a nice place.",
             ["Where do I live?", "Which is my town?", "Do you know my town?"], "You live in {}."),
    "colour": (["I like {}.", "My colour is {}.", "I love {} most."], "{} is a fine colour.",
               ["Which colour do I like?", "What is my colour?", "Do you know my colour?"],
               "You like {}."),
}
