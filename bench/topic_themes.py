"""Themes of eight public Pol.is conversations, for `python -m bench.topics`: the words by which a reader knows them.

Of each theme there are several words for one thing, in one pattern. A comment has a theme if it has words of that theme
and of no other. The patterns were written before any clusters were looked at, from what the conversations are about;
no person has labelled the comments. Choices of the embedder and the clusterer were made with these themes.
"""

from __future__ import annotations

THEMES: dict[str, dict[str, str]] = {
    "austria-climate.5twd2jsnkf.2022-08-08": {
        "repair": r"repar|langlebig|lebensdauer|obsoleszenz|haltbar|garantie|gewährleistung|wegwerf",
        "packaging": r"verpack|plastik|kunststoff|pfand|mehrweg|einweg|recycl|müll|abfall",
        "advertising": r"werbung|werbe|reklame|prospekt",
        "prices and taxes": r"steuer|abgabe|co2-preis|bepreis|kostenwahrheit|subvention|förder|zoll|mwst",
        "labels": r"label|kennzeichn|gütesiegel|siegel|transparen|ampel|fußabdruck|fussabdruck",
        "food": r"fleisch|lebensmittel|landwirt|ernähr|vegan|vegetar|bauern|tierisch|massentier",
        "transport": r"verkehr|bahn\b|öffi|auto\b|autos\b|flug|transport|lkw|fahrrad|\brad",
        "energy": r"energie|strom|photovolt|solar|windkraft|heiz|\bgas\b|\böl\b",
        "education": r"schul|bildung|unterricht|kinder|lernen|bewusstsein",
        "land": r"boden|versiegel|grünfläche|bäume|wald|flächen",
        "sharing": r"leih|teilen|sharing|second|gebraucht|secondhand|tausch|mieten",
    },
    "bg2050-volunteers": {
        "parking": r"\bpark(?:ing|ed)\b|garage",
        "housing": r"hous(?:e|es|ing)|apartment|rent|landlord|homeless|affordab|condo",
        "transit": r"transit|\bbus(?:es)?\b|light rail|train|uber|shuttle",
        "walking and cycling": r"sidewalk|bik(?:e|es|ing)|bicycl|pedestrian|walk(?:able|ing|ability)?\b|greenway|trail",
        "traffic": r"traffic|road|interstate|congestion|intersection|bypass|highway",
        "arts": r"museum|theat|\barts?\b|music|concert|cultur|venue",
        "schools": r"school|teacher|education|student|universit|wku|child ?care|daycare",
        "shops and food": r"restaurant|retail|shop|store|grocer|mall\b|costco|trader joe|whole foods",
        "green": r"\btrees?\b|\bparks?\b|green space|river|nature|environment|recycl",
        "jobs": r"\bjobs?\b|wage|employ|industr|airport|tourism",
    },
    "brexit-consensus": {
        "another vote": r"referendum|people'?s vote|second vote|revoke",
        "parties": r"labour|tor(?:y|ies)|conservative|corbyn|\bmay\b|lib dem|parliament|\bmps?\b",
        "trade": r"trade|customs|single market|\bwto\b|no[- ]deal|econom",
        "movement": r"immigra|free(?:dom of)? movement|migra|citizens",
        "border": r"ireland|irish|border|backstop|gibraltar",
    },
    "football-concussions": {
        "children": r"\bkids?\b|child|\bsons?\b|parent|youth|high school|pop warner|boys",
        "equipment": r"helmet|equipment|padding|\bpads?\b|technolog",
        "rules": r"\brules?\b|ban(?:ned)?\b|tackl|kickoff|flag football|rugby|penalt",
        "money": r"money|owner|profit|salar|\bpaid\b|\bpay\b|million|lawsuit|insur|compensat",
        "medicine": r"brain|cte\b|research|scien|medical|doctor|diagnos|study|studies|symptom",
        "watching": r"watch|fans?\b|entertain|viewer|television|\btv\b",
    },
    "london.youth.policing": {
        "schools": r"school|teach|college|student",
        "incentives": r"incentiv|paid|\bpay\b|reward|voucher|certificate|\bcv\b|money",
        "media": r"social media|online|advert|video|instagram|youtube|app\b",
        "identity": r"ethnic|represent|divers|background|race|black|identify",
        "officers": r"officer|\bpolice (?:should|officers?|need)|stop (?:and|&) search|trust",
    },
    "march-on.operation-marchin-orders": {
        "climate": r"climate|renewable|fossil|carbon|global warming|solar|paris (?:accord|agreement)|clean energy",
        "health care": r"health ?care|medicare|medicaid|single[- ]payer|insurance|prescription|mental health|\baca\b",
        "guns": r"\bguns?\b|\bnra\b|assault|firearm|background check|ammunition",
        "women": r"abortion|reproductive|planned parenthood|birth control|pro-?choice|equal rights amendment|\bera\b",
        "pay": r"equal pay|minimum wage|living wage|wage gap|paid (?:family|parental|maternity|sick)|family leave",
        "immigration": r"immigra|\bdaca\b|dreamer|refugee|deport|border|\bice\b|sanctuary",
        "voting": r"gerrymander|voter|voting|electoral|\bballot|election day|redistrict",
        "money in politics": r"citizens united|campaign financ|lobby|dark money|\bpacs?\b|big money",
        "president": r"trump|impeach|russia|mueller|emoluments|25th amendment",
        "education": r"school|teacher|college|student|devos|tuition|education",
        "lgbt": r"lgbt|transgender|\bgay\b|queer|same-sex|\btrans\b",
        "race and police": r"racis|police|black lives|mass incarcerat|prison|white suprem|criminal justice",
        "taxes": r"\btax",
        "water and land": r"water|plastic|national parks?|public lands?|pollut|pipeline|\bepa\b",
        "harassment": r"sexual|harass|rape|assaulted|domestic violence|metoo",
    },
    "scoop-hivemind.biodiversity": {
        "pests": r"pest|predator|1080|possum|stoat|\brats?\b|trap|weed",
        "private land": r"private land|landowner|farm|agricultur|dairy|covenant|property",
        "cities": r"\bcit(?:y|ies)\b|urban|council|backyard|garden",
        "sea": r"marine|fish|ocean|\bsea\b|coast|seabed",
        "fresh water": r"river|wetland|fresh ?water|stream|lake|waterway",
        "children and schools": r"school|educat|child|young people|\bkids?\b|learn",
        "iwi": r"m[aā]ori|\biwi\b|tiriti|treaty|tangata|kaitiaki|m[aā]tauranga",
        "cats and dogs": r"\bcats?\b|\bdogs?\b|\bpets?\b",
        "money": r"fund|tax|levy|budget|invest|econom",
        "planting": r"plant|forest|\btrees?\b|seed|pine",
    },
    "vtaiwan.uberx": {
        "insurance": r"保險|投保|理賠|意外險",
        "licence": r"駕照|執照|登記證|考照|職業駕駛",
        "tax": r"稅",
        "rating": r"評價|評分|評比|星等|給星",
        "safety": r"安全|犯罪|前科|良民|性侵|治安",
        "price": r"價格|費率|便宜|加成|收費|計費|車資|跳表",
        "law": r"修法|法規|法律|法令|合法|違法|非法|納管",
        "jobs": r"就業|失業|工作權|生計|兼差|收入",
    },
}  # fmt: skip
