#pragma once
/// @file
/// NCCL as a library that is opened when it is first needed: this program builds and runs without it.
///
/// The declarations are those of NCCL's own header, as far as they are used; they have not changed
/// since NCCL 2.14, the first whose communicators need not block.

#include <cstddef>
#include <memory>
#include <string>

/// @brief NCCL's collectives, for ranks that have a GPU each.
namespace ultra::comm::nccl {

/// @brief What NCCL's functions return: ncclResult_t.
enum class Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

/// @brief Element types that we send: ncclDataType_t.
enum class DataType : int {
  kInt8 = 0,
  kInt32 = 2,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};

/// @brief How elements are combined: ncclRedOp_t.
enum class RedOp : int { kSum = 0, kMax = 2, kMin = 3 };

/// @brief What the members of a group must agree on before they connect: ncclUniqueId.
struct UniqueId {
  char bytes[128];  ///< whatever NCCL puts there
};

/// @brief The beginning of ncclConfig_t, as of NCCL 2.14: later libraries set the rest themselves.
struct Config {
  std::size_t size = 24;             ///< of this struct
  unsigned int magic = 0xcafebeefU;  ///< says that it is one
  unsigned int version = 21400;      ///< the header's
  int blocking = 0;                  ///< 0: functions return at once with kInProgress
};
static_assert(sizeof(Config) == 24);

/// @brief ncclComm.
struct Comm;

/// @brief NCCL's functions, in an open library.
struct Library {
  /// @brief ncclGetVersion.
  Result (*get_version)(int* version) = nullptr;
  /// @brief ncclGetUniqueId.
  Result (*get_unique_id)(UniqueId* id) = nullptr;
  /// @brief ncclCommInitRankConfig.
  Result (*comm_init)(Comm** comm, int size, UniqueId id, int rank, Config* config) = nullptr;
  /// @brief ncclCommGetAsyncError.
  Result (*comm_get_async_error)(Comm* comm, Result* state) = nullptr;
  /// @brief ncclCommAbort.
  Result (*comm_abort)(Comm* comm) = nullptr;
  /// @brief ncclCommDestroy.
  Result (*comm_destroy)(Comm* comm) = nullptr;
  /// @brief ncclGetErrorString.
  const char* (*get_error_string)(Result result) = nullptr;
  /// @brief ncclGetLastError.
  const char* (*get_last_error)(Comm* comm) = nullptr;
  /// @brief ncclGroupStart.
  Result (*group_start)() = nullptr;
  /// @brief ncclGroupEnd.
  Result (*group_end)() = nullptr;
  /// @brief ncclAllReduce.
  Result (*all_reduce)(const void* send, void* receive, std::size_t count, DataType type, RedOp op,
                       Comm* comm, void* stream) = nullptr;
  /// @brief ncclReduce.
  Result (*reduce)(const void* send, void* receive, std::size_t count, DataType type, RedOp op,
                   int root, Comm* comm, void* stream) = nullptr;
  /// @brief ncclBroadcast.
  Result (*broadcast)(const void* send, void* receive, std::size_t count, DataType type, int root,
                      Comm* comm, void* stream) = nullptr;
  /// @brief ncclAllGather.
  Result (*all_gather)(const void* send, void* receive, std::size_t send_count, DataType type,
                       Comm* comm, void* stream) = nullptr;
  /// @brief ncclReduceScatter.
  Result (*reduce_scatter)(const void* send, void* receive, std::size_t receive_count,
                           DataType type, RedOp op, Comm* comm, void* stream) = nullptr;
  /// @brief ncclSend.
  Result (*send)(const void* send, std::size_t count, DataType type, int peer, Comm* comm,
                 void* stream) = nullptr;
  /// @brief ncclRecv.
  Result (*receive)(void* receive, std::size_t count, DataType type, int peer, Comm* comm,
                    void* stream) = nullptr;

  std::string name;  ///< the file that was opened

  /// @brief The library in a file.
  /// @param name  a path, or a name that the system's search path has.
  /// @throws ConfigError that says what is missing: the file, a function, or a version from 2.14 on.
  [[nodiscard]] static std::shared_ptr<const Library> open(const std::string& name);

  /// @brief NCCL as it is usually installed: libnccl.so.2, also below /usr/local/cuda.
  /// @throws ConfigError as open().
  [[nodiscard]] static std::shared_ptr<const Library> open_installed();

  /// @brief Throws CommError with NCCL's own words unless `result` is kSuccess or kInProgress.
  /// @param call  the name of the function that returned it.
  void check(Result result, const std::string& call, Comm* comm) const;
};

}  // namespace ultra::comm::nccl
