"""What tells languages and wrongly decoded text apart: stop words, letters and common characters.

Short lists of the most frequent words and letters, as any frequency list of the language shows them.
"""

from __future__ import annotations

#: Frequent short words by language, for the languages that share a script with others.
STOP_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "en": (
            "the of and to a in i is that was he for it with as his on be at by had not are but from or have an "
            "they which one you were her she all there would their we him been has when who will more no if out "
            "so said what over up my me our us its how now into about than then some can only other could these "
            "those may do does did your after where most through before between just very any also under while "
            "down again too here because should against both each why am"
        ),
        "de": (
            "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden "
            "aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur "
            "oder aber vor zur"
        ),
        "fr": (
            "de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il sont la "
            "avec son aux d'une ses mais comme ou si leur y dont elle deux tout nous sa cette être fait ces ont "
            "été je vous à"
        ),
        "es": (
            "de la que el en y a los del se las por un para con no una su al lo como más pero sus le ya o este sí "
            "porque esta entre cuando muy sin sobre también me hasta hay donde quien desde todo nos durante es "
            "fue son"
        ),
        "pt": (
            "de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele das tem "
            "à seu sua ou ser quando muito há nos já está eu também só pelo pela até isso ela entre era depois "
            "são"
        ),
        "it": (
            "di e il la che in un a per è una sono mi si lo ha le con ti no ma non da come io questo dei del "
            "della nel al alla più gli anche delle i degli ad ogni suo sua essere o se ed alle dalla nella era"
        ),
        "nl": (
            "de en van ik te dat die in een hij het niet zijn is was op aan met als voor had er maar om hem dan "
            "zou of wat mijn men dit zo door over ze zich bij ook tot je mij uit der daar haar naar heb heeft "
            "worden wordt"
        ),
        "sv": (
            "och i att det som en på är av för med till den har de inte om ett han men var jag sig från vi så kan "
            "när man eller under efter upp skall vid hade nu hon än där alla mycket ut också får vara"
        ),
        "da": (
            "og i at det en den til er som på de med han af for ikke der var mig sig men et har om vi min havde "
            "ham hun nu over da fra du ud sin dem os op man hans hvor eller hvad skal selv her alle vil blev "
            "kunne ind når være nogen blive"
        ),
        "nb": (
            "og i jeg det at en et den til er som på de med han av ikke der så var meg seg men ett har om vi min "
            "mitt ha hadde hun nå over da ved fra du ut sin dem oss opp man kan hans hvor eller hva skal selv "
            "sjøl her alle vil bli ble blitt kunne inn når være noen"
        ),
        "is": (
            "og að í á er sem það til um við með en ekki var hann fyrir af hún þar eru sé hafa voru hefur vera "
            "eða þá frá þess þegar eftir verið hver allir skal rétt"
        ),
        "fi": (
            "ja on ei se että hän oli ovat kuin joka mutta tai myös sen en ole niin kun jos hänen ne he mitä mikä "
            "siitä jokaisella oikeus ettei sekä olla tämä voi mukaan jotka kaikki"
        ),
        "et": (
            "ja on ei et see oli ta kui ka mis oma või aga siis nii selle ning kes välja seda tema ma olla igal "
            "inimesel õigus pole"
        ),
        "hu": (
            "a az és hogy nem is egy van ez meg volt mint de ha csak el már minden vagy kell még azt ezt aki ami "
            "sem lesz joga személynek szerint saját"
        ),
        "pl": (
            "i w na z do nie się że jest to o jak a od po przez dla co za tak ale czy są jego tym ich był tylko "
            "może oraz lub ma prawo każdy być jej przy który które która"
        ),
        "cs": (
            "a v se na je že s z do to o i jako za by k ve po pro ale tak jsem jeho byl co od když nebo aby jsou "
            "má který právo každý podle která které být také už jen"
        ),
        "sk": (
            "a v sa na je že s z do to o aj ako za by k vo po pre ale tak som jeho bol čo od keď alebo aby sú má "
            "ktorý právo každý podľa ktorá ktoré byť tiež už len"
        ),
        "sl": (
            "in je v se na da so za z ki ne s pa po kot bi ali od tudi pri če do ni sem kako bil jih lahko samo "
            "vsak pravico ima"
        ),
        "hr": (
            "i u je se na da su za od s ne a koji što kao o bi iz ili ali li sa po samo to kako ima pravo svatko "
            "svako biti nije koja koje"
        ),
        "sq": "të e në dhe për me një që nga si është i më se ka nuk u do ky kjo ose njeri drejtë çdo kush janë",
        "ro": (
            "de și şi în a la cu că o un pe nu din se care este mai pentru au fi lui sunt ca sa să al ale prin "
            "ori are dreptul orice persoană după fost dar"
        ),
        "tr": (
            "ve bir bu için de da ile olarak çok daha olan gibi her ne o en kadar ancak sonra veya ise değil ya "
            "var mı herkes hakkı hakkına tarafından olduğu ki"
        ),
        "az": "və bir bu üçün də da ilə hər olan onun kimi öz daha ki ya malikdir hüququ insan olmaq edilməsi",
        "lt": (
            "ir į kad yra su iš o tai kaip ne bet jo ar už buvo nuo dėl apie turi teisę kiekvienas žmogus savo "
            "būti arba"
        ),
        "lv": "un ir ar uz no ka par kas kā pie bet arī vai tiesības katram cilvēkam savu viņa lai būt tas jo",
        "vi": (
            "và của là có các được trong một cho với không người đã những để này về quyền mọi như khi tại theo đó "
            "cũng từ vào hay"
        ),
        "id": (
            "yang dan di untuk dengan dari ini itu tidak pada dalam adalah oleh akan atau sebagai ke setiap orang "
            "juga karena hak berhak telah ada mereka bagi dapat seperti"
        ),
        "tl": (
            "ang ng sa na mga at ay ni para ito kung may hindi siya nang lahat bawat tao karapatan kanyang dapat pag o"
        ),
        "sw": (
            "ya na wa kwa ni katika za la kila haki mtu au cha yake bila ana kama hii vya watu kuwa hiyo lazima wote si"
        ),
        "ca": (
            "de la i el que a en les els un per amb una del no es dels com al se és més o són seva dret tota "
            "persona les aquest"
        ),
        "gl": (
            "de a e o que do da en os un para con non unha ao as no por se na máis é como dos súa toda persoa "
            "dereito das"
        ),
        "eu": "eta da ez bat du izan ere dira hau dute baina edo bere den guztiek eskubidea egin dago",
        "cy": "y yr a yn i o ar mae ei am wedi bod gan fod hawl gan bawb neu na eu nad ac i'r o'r a'r",
        "ga": "an na agus ar is a i go le do ag tá sé nó gach ceart duine de chun bhfuil",
        "af": "die en van in het is te nie dat 'n sy op met vir as wat hy was om ek deur aan sal elkeen reg sy haar",
        "so": "iyo waa in ku ka oo ay uu ah la u qof kasta leeyahay xaq waxaa",
        "eo": "la kaj de en al ne estas por kun ke aŭ kiel sur ĉiu rajton havas per ili sia iu",
        "ru": (
            "и в не на что я с он как это по но его к из у за от так же для вы бы о все право человек каждый или "
            "на быть имеет"
        ),
        "uk": "і в не на що з та як це до за його від для по але або й про має право людина кожна кожен бути у є",
        "be": "і ў не на што з як гэта да за яго ад для па але або пра мае права чалавек кожны быць у каб",
        "bg": "и в на не да за се от с е по като че до или има право всеки човек са при който си това бъде",
        "sr": (
            "и у је се на да су за од с не а који што као о би из или али по само то како има право свако бити није"
        ),
        "mk": "и во на не да се за од со е по како што до или има право секој човек се при кој ова биде",
        "ar": "في من على أن إلى التي الذي هذا لا ما هو مع كل عن هذه أو كان ولا حق شخص لكل له بين قد ذلك",
        "fa": "و در به از که این را با است برای آن یک هر خود تا کند بر بود شده حق دارد یا باید کس هم می ها",
        "ur": "کے کی میں اور سے کا ہے کو پر کہ نے اس یہ ہیں نہیں ہر شخص حق جو بھی کیا ایک وہ ہو گا",
        "ps": "د په او چې ته له کې دا هر سره يو نه حق لري څوک شي دی",
        "hi": "के में की है और से का को हैं पर एक ने यह भी नहीं कि इस तथा प्रत्येक व्यक्ति अधिकार या जो हो",
        "mr": "आणि आहे च्या या व ते की हे नाही असे प्रत्येक व्यक्तीला हक्क त्या किंवा होते करण्याचा",
        "ne": "र छ को मा हो पनि गर्ने यो प्रत्येक व्यक्तिलाई अधिकार तथा वा छैन हुने",
    }.items()
}

#: Letters outside a-z that the language uses, in lower case.
SPECIAL_LETTERS: dict[str, frozenset[str]] = {
    language: frozenset(letters)
    for language, letters in {
        "en": "éèêëïüöñçàâîôæœ",
        "de": "äöüß",
        "fr": "éèêëàâçîïôùûüœæÿ",
        "es": "áéíóúñü",
        "pt": "áâãàçéêíóôõúü",
        "it": "àèéìíîòóùú",
        "nl": "éëïöüèê",
        "sv": "åäöé",
        "da": "æøåé",
        "nb": "æøåéòô",
        "is": "áðéíóúýþæö",
        "fi": "äöåšž",
        "et": "äöõüšž",
        "hu": "áéíóöőúüű",
        "pl": "ąćęłńóśźż",
        "cs": "áčďéěíňóřšťúůýž",
        "sk": "áäčďéíĺľňóôŕšťúýž",
        "sl": "čšž",
        "hr": "čćđšž",
        "sq": "ëç",
        "ro": "ăâîșțşţ",
        "tr": "çğıöşüâîû",
        "az": "çəğıöşü",
        "lt": "ąčęėįšųūž",
        "lv": "āčēģīķļņšūž",
        "vi": "àáảãạăằắẳẵặâầấẩẫậèéẻẽẹêềếểễệìíỉĩịòóỏõọôồốổỗộơờớởỡợùúủũụưừứửữựỳýỷỹỵđ",
        "ca": "àçèéíïòóúü·",
        "gl": "áéíñóúü",
        "eu": "ñç",
        "cy": "âêîôûŵŷáéíóäëïöü",
        "ga": "áéíóú",
        "af": "éèêëïîôöûüá",
        "tl": "ñ",
        "eo": "ĉĝĥĵŝŭ",
    }.items()
}

#: Letters that, among the languages of their script, belong to few: they outweigh a missing stop word.
TELLING_LETTERS: dict[str, str] = {
    "de": "ß",
    "es": "ñ¿¡",
    "pt": "ãõ",
    "is": "þð",
    "hu": "őű",
    "pl": "łąęśźżń",
    "cs": "ěřů",
    "sk": "ľĺŕ",
    "ro": "ășțţ",
    "tr": "ğı",
    "az": "ə",
    "lt": "ėįų",
    "lv": "āģķļņ",
    "vi": "ăđơưạảấầẩậắặẹẻếềểễệịọỏốồổộớờởợụủứừửựỳỷ",
    "eo": "ĉĝĥĵŝŭ",
    "uk": "іїєґ",
    "be": "ўі",
    "ru": "ыэё",
    "bg": "ъщ",
    "sr": "јљњћђ",
    "mk": "ѓќѕј",
    "fa": "پچژگک",
    "ur": "ٹڈڑںےہ",
    "ps": "ټډړښځڅ",
}

#: The most frequent letters of scripts that old single-byte encodings write, most frequent first.
FREQUENT_LETTERS: dict[str, str] = {
    "cyrillic": "оеаинтсрвлкмдпуіязыьйбгчжхшюїєщцэфўјґёъћљњђѓќџѕ",
    "greek": "αοιετσνηυρπκμλςωδγχθφβξζψάέήίόύώϊϋΐΰ",
    "hebrew": "יוהלאתרבמשנםעחדקפןזגטסכךצףץ",
    "arabic": "اليمنوتربعدهسفحقكشجصذطخةأىزضءثغئإظؤآپچژگکیـ",
    "thai": "านรกงมอยเลตวสดทหะคปพไบชจแขใผโฐถณธญซศษุิีื่้ัํ็์าำูๆฯฉฟภฮฝ",
    "hiragana": "のにはをたがでてとしれさあいるるかなもうこらりすくきまよつおえけせどだそわ",
    "armenian": "աենիոտրմկուվսյլհդբգպցշնթ",
    "georgian": "აიესრნლმოდბვთუგტკქხშცპზყწ",
}

#: Frequent characters of Chinese (simplified and traditional) and Japanese, and frequent syllables of Korean.
FREQUENT_HAN: frozenset[str] = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然"
    "家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把"
    "机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果"
    "加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔"
    "更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德資本命山金指克許統區保至隊形社便空決治"
    "展馬科司五基眼書非則聽白卻界達光放強即像難且權思王象完設式色路記南品住告類求據程北邊死張該這個們來為國說時會對"
    "後發過經麼現當沒動還進樣開從實軍無與長機業將兩間問並應戰頭體見產給門東聲員論處義幾認條氣題爾別變總電數報結務場"
    "計標寫華萬點關請議組項導運裡話語選護錢買讓願條產視頭約紅飛錯線罪凡享均須任何人人自由權利受保障宣言聯合國際社會"
    "文化日一人年大国本中出会社時事行前者月分上生見間後下同場学法何今自地気手家部員内定力田高方間問最新立明開通東作"
    "金外京実発決体代理表現度化性対数全主回当政関業権条有利由第宣言及又受差別平等世界教育保護基労働的必要目的享障尊"
    "厳取得加入続示情報意思味私彼女子供達言葉話思持知使考来帰食飲読書聞買送朝昼夜電車駅道店先月週毎午半円百千万"
)
FREQUENT_HANGUL: frozenset[str] = frozenset(
    "이다의는에을가고하지한를은로도사자나인기서대리어일있그수아해시과정들보여라주게상장만전부제원유공구성조면데동니"
    "까오무신소것치스우우방적모안비위러내생경관각거당국지민문미회실차계용중및모든권리또으며할받와평등법등야때된않없"
    "었했습그리선언누구든교육화학재간음말년월일던려저려"
)

#: Letters with marks that occur as foreign names or loans in any language that writes Latin letters.
COMMON_LATIN: frozenset[str] = frozenset("áàâäãåéèêëíìîïóòôöõøúùûüýÿñçæœßšžćčłğşığ")
