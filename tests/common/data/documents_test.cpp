#include "common/data/documents.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/random.hpp"

namespace ultra::data {
namespace {

class DocumentsTest : public test::RandomTest {
 protected:
  [[nodiscard]] std::vector<std::int32_t> begins(const Documents& documents, std::size_t number,
                                                 std::size_t seq_len) const {
    std::vector<std::int32_t> result(seq_len, -1);
    documents.begins_into(number, result);
    return result;
  }
};

TEST_F(DocumentsTest, EachTokenKnowsWhereItsDocumentBegins) {
  const std::vector<std::int32_t> all = begins(Documents(seed, 5), random.between(0, 99), 200);
  EXPECT_EQ(all[0], 0);
  for (std::size_t i = 1; i < all.size(); ++i) {
    EXPECT_TRUE(all[i] == all[i - 1] || all[i] == static_cast<std::int32_t>(i)) << i;
  }
}

TEST_F(DocumentsTest, LengthsHaveTheMean) {
  const std::size_t mean = random.between(4, 40);
  std::size_t documents = 0;
  const std::size_t sequences = 200;
  const std::size_t seq_len = 1000;
  for (std::size_t number = 0; number < sequences; ++number) {
    const std::vector<std::int32_t> all = begins(Documents(seed, mean), number, seq_len);
    for (std::size_t i = 1; i < seq_len; ++i) documents += all[i] == static_cast<std::int32_t>(i);
  }
  const double trials = static_cast<double>(sequences * (seq_len - 1));
  const double chance = 1.0 / static_cast<double>(mean);
  // Six standard deviations of a binomial number: one run in 10^9 fails by chance.
  EXPECT_NEAR(static_cast<double>(documents), trials * chance,
              6 * std::sqrt(trials * chance * (1 - chance)));
}

TEST_F(DocumentsTest, DependOnSeedAndNumberOnly) {
  const Documents documents(seed, 7);
  EXPECT_EQ(begins(documents, 3, 100), begins(Documents(seed, 7), 3, 100));
  EXPECT_NE(begins(documents, 3, 100), begins(documents, 4, 100));
  EXPECT_NE(begins(documents, 3, 100), begins(Documents(seed + 1, 7), 3, 100));
}

TEST_F(DocumentsTest, OfOneTokenEach) {
  const std::vector<std::int32_t> all = begins(Documents(seed, 1), 0, 5);
  EXPECT_EQ(all, (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace ultra::data
