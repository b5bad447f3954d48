#include "chapters/04_zero/checkpoints/checkpoint_writer.hpp"

#include <cstring>
#include <filesystem>

#include "common/base/interrupt.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

class CancellableFilesTest : public ::testing::Test {
 protected:
  std::vector<std::byte> bytes(std::size_t count) const {
    std::vector<std::byte> result(count);
    for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<std::byte>(i * 7 + i / 251);
    return result;
  }

  test::TemporaryFolder folder;
  std::string path = folder.path("file");
  std::atomic<bool> cancelled = false;
  CancellableFiles files{checkpoint::posix_files(), cancelled};
};

TEST_F(CancellableFilesTest, WritesWhatIsLongerThanAPieceWhole) {
  const auto written = bytes(2 * kCancellablePiece + 12345);
  const auto file = files.create(path);
  file->write_at(10, written);
  file->sync();
  file->close();
  std::vector<std::byte> read(written.size());
  const auto again = files.open_for_reading(path);
  ASSERT_EQ(again->size(), written.size() + 10);
  again->read_at(10, read);
  EXPECT_EQ(std::memcmp(read.data(), written.data(), read.size()), 0);
}

TEST_F(CancellableFilesTest, StopsWhenItIsTold) {
  const auto file = files.create(path);
  file->write_at(0, bytes(5));
  cancelled = true;
  EXPECT_THROW(file->write_at(5, bytes(1)), Interrupted);
  EXPECT_THROW(file->sync(), Interrupted);
  file->close();
  EXPECT_EQ(std::filesystem::file_size(path), 5U);
}

}  // namespace
}  // namespace ultra::zero
