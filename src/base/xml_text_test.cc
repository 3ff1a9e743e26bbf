#include "base/xml_text.h"

#include <gtest/gtest.h>

namespace troika {
namespace {

TEST(XmlText, EscapesWhatMarksXml) {
  EXPECT_EQ(xml_text("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
  EXPECT_EQ(xml_text("tab\t, line\n, \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "tab\t, line\n, \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
}

// Readers of pictures refuse a whole file for one of these.
TEST(XmlText, ReplacesWhatXmlHasNot) {
  const std::string kNone = "\xef\xbf\xbd";
  EXPECT_EQ(xml_text("a\x1b[2J\x01"), "a" + kNone + "[2J" + kNone);
  EXPECT_EQ(xml_text(std::string_view("\0b", 2)), kNone + "b");
  EXPECT_EQ(xml_text("\xff"
                     "c"),
            kNone + "c");
  EXPECT_EQ(xml_text("\xc3"), kNone);                          // is cut off
  EXPECT_EQ(xml_text("\xc0\xaf"), kNone + kNone);              // is longer than need be
  EXPECT_EQ(xml_text("\xed\xa0\x80"), kNone + kNone + kNone);  // is half of a pair
  EXPECT_EQ(xml_text("\xef\xbf\xbf"), kNone + kNone + kNone);  // is no character
  EXPECT_EQ(xml_text("\xf4\x90\x80\x80"), kNone + kNone + kNone + kNone);
}

}  // namespace
}  // namespace troika
