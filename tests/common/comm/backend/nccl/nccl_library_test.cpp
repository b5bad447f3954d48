// Covers: common/comm/backend/nccl/nccl_library.hpp
//
// What is opened in NCCL's place, and what is said when it cannot be.

#include "common/comm/backend/nccl/nccl_library.hpp"

#include "tests/common/comm/backend/nccl/fake_library.hpp"
#include "tests/common/comm/comm_test.hpp"

namespace ultra::comm::nccl {
namespace {

TEST(NcclLibrary, FindsItsFunctions) {
  const auto library = Library::open(test::fake_nccl_path());
  int version = 0;
  EXPECT_EQ(library->get_version(&version), Result::kSuccess);
  EXPECT_EQ(version, 22800);
}

TEST(NcclLibrary, SaysWhichFileIsMissing) {
  EXPECT_THAT(message_of<ConfigError>([] { static_cast<void>(Library::open("libno_nccl.so")); }),
              AllOf(StartsWith("NCCL cannot be opened: libno_nccl.so"),
                    HasSubstr("LD_LIBRARY_PATH"), HasSubstr("--collectives ours")));
}

TEST(NcclLibrary, SaysWhichFunctionIsMissing) {
  EXPECT_THAT(message_of<ConfigError>([] { static_cast<void>(Library::open("libm.so.6")); }),
              StartsWith("libm.so.6 has no function ncclGetVersion."));
}

TEST(NcclLibrary, QuotesItsErrors) {
  const auto library = Library::open(test::fake_nccl_path());
  EXPECT_NO_THROW(library->check(Result::kSuccess, "ncclSend", nullptr));
  EXPECT_NO_THROW(library->check(Result::kInProgress, "ncclSend", nullptr));
  EXPECT_EQ(
      message_of<CommError>([&] { library->check(Result::kInternalError, "ncclSend", nullptr); }),
      "ncclSend: internal error (said by the fake library)");
}

}  // namespace
}  // namespace ultra::comm::nccl
