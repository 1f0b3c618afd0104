// Names, descriptions and language pairs as `sacrebleu --list` of version 2.6.0 prints them.
#include "trainer/metrics/test_set_table.h"

#include <array>

namespace mtf {
namespace {

constexpr std::string_view kTexts = "src ref";
constexpr std::string_view kDocuments = "src ref docid genre origlang";
constexpr std::string_view kTwoReferences = "src ref:0 ref:1 docid genre origlang";
constexpr std::string_view kThreeReferences = "src ref:0 ref:1 ref:2 docid genre origlang";
constexpr std::string_view kInFiles = "";

constexpr std::array<TestSet, 67> kTestSets = {{
    {"iwslt17", "Official evaluation data for IWSLT.", kDocuments,
     "en-fr fr-en en-de de-en en-zh zh-en en-ar ar-en en-ja ja-en en-ko ko-en"},
    {"iwslt17/dev2010", "Development data for IWSLT 2017.", kDocuments,
     "en-fr fr-en en-de de-en en-zh zh-en"},
    {"iwslt17/tst2010", "Development data for IWSLT 2017.", kDocuments,
     "en-fr fr-en en-de de-en en-zh zh-en"},
    {"iwslt17/tst2011", "Development data for IWSLT 2017.", kDocuments,
     "en-fr fr-en en-de de-en en-zh zh-en"},
    {"iwslt17/tst2012", "Development data for IWSLT 2017.", kDocuments,
     "en-fr fr-en en-de de-en en-zh zh-en"},
    {"iwslt17/tst2013", "Development data for IWSLT 2017.", kDocuments,
     "en-fr fr-en en-de de-en en-zh zh-en"},
    {"iwslt17/tst2014", "Development data for IWSLT 2017.", kDocuments,
     "en-fr fr-en en-de de-en en-zh zh-en"},
    {"iwslt17/tst2015", "Development data for IWSLT 2017.", kDocuments,
     "en-fr fr-en en-de de-en en-zh zh-en"},
    {"iwslt17/tst2016", "Development data for IWSLT 2017.", kDocuments,
     "en-fr fr-en en-de de-en en-zh zh-en"},
    {"mtedx/test", "mTEDx evaluation data, test: http://openslr.org/100", kTexts,
     "el-en es-en es-fr es-it es-pt fr-en fr-es fr-pt it-en it-es pt-en pt-es ru-en"},
    {"mtedx/valid", "mTEDx evaluation data, valid: http://openslr.org/100", kTexts,
     "el-en es-en es-fr es-it es-pt fr-en fr-es fr-pt it-en it-es pt-en pt-es ru-en"},
    {"mtnt1.1/test",
     "Test data for the Machine Translation of Noisy Text task: http://www.cs.cmu.edu/~pmichel1/mtnt/",
     kTexts, "en-fr fr-en en-ja ja-en"},
    {"mtnt1.1/train",
     "Validation data for the Machine Translation of Noisy Text task: http://www.cs.cmu.edu/~pmichel1/mtnt/",
     kTexts, "en-fr fr-en en-ja ja-en"},
    {"mtnt1.1/valid",
     "Validation data for the Machine Translation of Noisy Text task: http://www.cs.cmu.edu/~pmichel1/mtnt/",
     kTexts, "en-fr fr-en en-ja ja-en"},
    {"mtnt2019", "Test set for the WMT 19 robustness shared task", kTexts, "en-fr fr-en en-ja ja-en"},
    {"multi30k/2016", "2016 flickr test set of Multi30k dataset", kTexts, "en-fr en-de en-cs"},
    {"multi30k/2017", "2017 flickr test set of Multi30k dataset", kTexts, "en-fr en-de"},
    {"multi30k/2018",
     "2018 flickr test set of Multi30k dataset. See https://competitions.codalab.org/competitions/19917 for "
     "evaluation.",
     kTexts, "en-fr en-de en-cs"},
    {"wmt08", "Official evaluation data.", kTexts,
     "cs-en en-cs de-en en-de es-en en-es fr-en en-fr hu-en en-hu"},
    {"wmt08/europarl", "Official evaluation data (Europarl).", kTexts, "de-en en-de es-en en-es fr-en en-fr"},
    {"wmt08/nc", "Official evaluation data (news commentary).", kTexts, "cs-en en-cs"},
    {"wmt09", "Official evaluation data.", kDocuments,
     "cs-en en-cs de-en en-de es-en en-es fr-en en-fr hu-en en-hu it-en en-it"},
    {"wmt10", "Official evaluation data.", kDocuments, "cs-en en-cs de-en en-de es-en en-es fr-en en-fr"},
    {"wmt11", "Official evaluation data.", kDocuments, "cs-en en-cs de-en en-de fr-en en-fr es-en en-es"},
    {"wmt12", "Official evaluation data.", kDocuments, "cs-en en-cs de-en en-de es-en en-es fr-en en-fr"},
    {"wmt13", "Official evaluation data.", kDocuments,
     "cs-en en-cs de-en en-de es-en en-es fr-en en-fr ru-en en-ru"},
    {"wmt14", "Official evaluation data.", kDocuments,
     "cs-en en-cs de-en en-de en-fr fr-en en-hi hi-en en-ru ru-en"},
    {"wmt14/full", "Evaluation data released after official evaluation for further research.", kDocuments,
     "cs-en en-cs de-en en-de en-fr fr-en en-hi hi-en en-ru ru-en"},
    {"wmt15", "Official evaluation data.", kDocuments,
     "en-fr fr-en cs-en de-en en-cs en-de en-fi en-ru fi-en ru-en"},
    {"wmt16", "Official evaluation data.", kDocuments,
     "cs-en de-en en-cs en-de en-fi en-ro en-ru en-tr fi-en ro-en ru-en tr-en"},
    {"wmt16/B", "Additional reference for EN-FI.", kDocuments, "en-fi"},
    {"wmt16/dev", "Development sets released for new languages in 2016.", kDocuments,
     "en-ro en-tr ro-en tr-en"},
    {"wmt16/tworefs", "EN-FI with two references.", kTwoReferences, "en-fi"},
    {"wmt17", "Official evaluation data.", kDocuments,
     "cs-en de-en en-cs en-de en-fi en-lv en-ru en-tr en-zh fi-en lv-en ru-en tr-en zh-en"},
    {"wmt17/B", "Additional reference for EN-FI and FI-EN.", kDocuments, "en-fi"},
    {"wmt17/dev", "Development sets released for new languages in 2017.", kDocuments,
     "en-lv en-zh lv-en zh-en"},
    {"wmt17/improved", "Improved zh-en and en-zh translations.", kDocuments, "en-zh zh-en"},
    {"wmt17/ms", "Additional Chinese-English references from Microsoft Research.", kThreeReferences, "zh-en"},
    {"wmt17/tworefs", "Systems with two references.", kTwoReferences, "en-fi"},
    {"wmt18", "Official evaluation data.", kDocuments,
     "cs-en de-en en-cs en-de en-et en-fi en-ru et-en fi-en ru-en en-tr tr-en en-zh zh-en"},
    {"wmt18/dev", "Development data (Estonian<>English).", kDocuments, "et-en en-et"},
    {"wmt18/test-ts", "Official evaluation sources with extra test sets interleaved.", kDocuments,
     "cs-en de-en en-cs en-de en-et en-fi en-ru et-en fi-en ru-en en-tr tr-en en-zh zh-en"},
    {"wmt19", "Official evaluation data.", kDocuments,
     "cs-de de-cs de-en de-fr en-cs en-de en-fi en-gu en-kk en-lt en-ru en-zh fi-en fr-de gu-en "
     "kk-en lt-en ru-en zh-en"},
    {"wmt19/dev", "Development data for tasks new to 2019.", kDocuments,
     "lt-en en-lt gu-en en-gu kk-en en-kk"},
    {"wmt19/google/ar", "Additional high-quality reference for WMT19/en-de.", kDocuments, "en-de"},
    {"wmt19/google/arp", "Additional paraphrase of wmt19/google/ar.", kDocuments, "en-de"},
    {"wmt19/google/hqall",
     "Best human-selected reference among original official reference and the Google reference and "
     "paraphrases.",
     kDocuments, "en-de"},
    {"wmt19/google/hqp", "Best human-selected reference between wmt19/google/arp and wmt19/google/wmtp.",
     kDocuments, "en-de"},
    {"wmt19/google/hqr", "Best human selected-reference between wmt19 and wmt19/google/ar.", kDocuments,
     "en-de"},
    {"wmt19/google/wmtp", "Additional paraphrase of the official WMT19 reference.", kDocuments, "en-de"},
    {"wmt20", "Official evaluation data for WMT20", kDocuments,
     "cs-en de-en de-fr en-cs en-de en-iu en-ja en-km en-pl en-ps en-ru en-ta en-zh fr-de iu-en "
     "ja-en km-en pl-en ps-en ru-en ta-en zh-en"},
    {"wmt20/dev", "Development data for tasks new to 2020.", kDocuments,
     "iu-en en-iu ja-en en-ja pl-en en-pl ta-en en-ta"},
    {"wmt20/robust/set1", "WMT20 robustness task, set 1", kTexts, "en-ja en-de"},
    {"wmt20/robust/set2", "WMT20 robustness task, set 2", kTexts, "en-ja ja-en"},
    {"wmt20/robust/set3", "WMT20 robustness task, set 3", kTexts, "de-en"},
    {"wmt20/tworefs", "WMT20 news test sets with two references", kTwoReferences,
     "de-en en-de en-zh ru-en zh-en"},
    {"wmt21", "Official evaluation data for WMT21.", kInFiles,
     "de-fr en-de en-ha en-is en-ja fr-de ha-en is-en ja-en zh-en en-zh cs-en de-en en-cs en-ru "
     "ru-en bn-hi hi-bn xh-zu zu-xh"},
    {"wmt21/AB", "Official evaluation data for WMT21 with references A and B.", kInFiles,
     "cs-en de-en en-de en-cs en-ru en-zh ru-en"},
    {"wmt21/AC", "Official evaluation data for WMT21 with references A and C", kInFiles, "en-de"},
    {"wmt21/B", "Official evaluation data for WMT21 with reference B.", kInFiles,
     "cs-en de-en en-cs en-ru en-zh ru-en"},
    {"wmt21/C", "Official evaluation data for WMT21 with reference C", kInFiles, "en-de"},
    {"wmt21/D", "Official evaluation data for WMT21 with reference D", kInFiles, "en-de"},
    {"wmt21/dev", "Development data for WMT21，if multiple references are available, the first one is used.",
     kInFiles, "en-ha ha-en en-is is-en"},
    {"wmt21/systems", "WMT21 system output.", kInFiles,
     "de-fr en-de en-ha en-is en-ja fr-de ha-en is-en ja-en zh-en en-zh cs-en de-en en-cs en-ru "
     "ru-en bn-hi hi-bn xh-zu zu-xh"},
    {"wmt22", "Official evaluation and system data for WMT22.", kInFiles,
     "cs-en cs-uk de-en de-fr en-cs en-de en-hr en-ja en-liv en-ru en-uk en-zh fr-de ja-en liv-en "
     "ru-en ru-sah sah-ru uk-cs uk-en zh-en"},
    {"wmt23", "Official evaluation and system data for WMT23.", kInFiles,
     "cs-uk de-en en-cs en-de en-he en-ja en-ru en-uk en-zh he-en ja-en ru-en uk-en zh-en"},
    {"wmt24", "WMT24 official test set release, v1.1 (excluding TS)", kInFiles,
     "cs-uk en-cs en-de en-es en-hi en-is en-ja en-ru en-uk en-zh ja-zh"},
}};

}  // namespace

std::span<const TestSet> test_sets() { return kTestSets; }

}  // namespace mtf
