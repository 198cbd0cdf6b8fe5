//! Names in `\p{..}`. Go knows the categories and scripts of Unicode 17 by their full names, without
//! regard to case, hyphens, underscores and spaces.

/// Abbreviations of categories.
const CATEGORIES: &str = "
    C Cc Cf Cn Co Cs L LC Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc
    Sk Sm So Z Zl Zp Zs";

/// Full names of categories, and the three names in small letters that Unicode adds.
const CATEGORY_ALIASES: &str = "
    Cased_Letter Close_Punctuation Combining_Mark Connector_Punctuation Control
    Currency_Symbol Dash_Punctuation Decimal_Number Enclosing_Mark Final_Punctuation
    Format Initial_Punctuation Letter Letter_Number Line_Separator Lowercase_Letter Mark
    Math_Symbol Modifier_Letter Modifier_Symbol Nonspacing_Mark Number Open_Punctuation
    Other Other_Letter Other_Number Other_Punctuation Other_Symbol Paragraph_Separator
    Private_Use Punctuation Separator Space_Separator Spacing_Mark Surrogate Symbol
    Titlecase_Letter Unassigned Uppercase_Letter cntrl digit punct";

const SCRIPTS: &str = "
    Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah
    Batak Bengali Beria_Erfe Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid
    Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common
    Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra
    Duployan Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Garay Georgian Glagolitic
    Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Gurung_Khema Han Hangul
    Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited
    Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi
    Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Kirat_Rai Lao Latin
    Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic
    Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui
    Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar
    Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong
    Ogham Ol_Chiki Ol_Onal Old_Hungarian Old_Italic Old_North_Arabian Old_Permic
    Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya
    Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic
    Samaritan Saurashtra Sharada Shavian Siddham Sidetic SignWriting Sinhala Sogdian
    Sora_Sompeng Soyombo Sundanese Sunuwar Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le
    Tai_Tham Tai_Viet Tai_Yo Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh
    Tirhuta Todhri Tolong_Siki Toto Tulu_Tigalari Ugaritic Vai Vithkuqi Wancho Warang_Citi
    Yezidi Yi Zanabazar_Square";

/// The form in which names are compared.
fn canonical(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// Whether Go has a class of this name.
pub(crate) fn is_known(name: &str) -> bool {
    let wanted = canonical(name);
    !wanted.is_empty()
        && [CATEGORIES, CATEGORY_ALIASES, SCRIPTS, "Any Assigned ASCII"]
            .iter()
            .flat_map(|names| names.split_whitespace())
            .any(|known| canonical(known) == wanted)
}
