#pragma once
/// @file
/// What a test asks of the library that stands in NCCL's place.

/// @brief Functions of fake_nccl.so beside NCCL's own.
extern "C" {

/// @brief What the library does wrong from now on.
enum FakeNcclFault : int {
  kFakeNcclNoFault = 0,
  kFakeNcclCallFails = 1,   ///< collectives return an error
  kFakeNcclLaterFails = 2,  ///< they begin, and the group fails
  kFakeNcclHangs = 3,       ///< they begin, and never end
};
/// @brief Sets the fault.
void fake_nccl_set_fault(int fault);
/// @brief How often a function of NCCL was called, such as "ncclAllReduce", since fake_nccl_reset.
int fake_nccl_calls(const char* name);
/// @brief Groups that are connected and neither destroyed nor aborted.
int fake_nccl_open_comms();
/// @brief Forgets calls and faults.
void fake_nccl_reset();
}
