/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system, Windows: whose a file is, and who may use one that replaces another.
 *
 * A file has an owner and a list of entries, each of which allows or denies something to a user or group. What callers want
 * to know of that is what the bits of a mode tell: what the owner may, and whether anybody else may read or write. So everybody
 * whom the list allows something, and who is neither the owner, this user, the system nor its administrators, counts
 * as group and as others. Entries that deny only ever take away, and are not looked at.
 *
 * An owner becomes a number: this user is one, and others are told apart by a digest of their identifier, which nobody
 * chooses. A file system without lists belongs to whoever uses it.
 */
#include "os_windows.h"

#ifdef _WIN32

#include <aclapi.h>
#include <stdlib.h>
#include <string.h>

#define RIGHTS_READ (FILE_READ_DATA | GENERIC_READ | GENERIC_ALL)
#define RIGHTS_WRITE (FILE_WRITE_DATA | FILE_APPEND_DATA | WRITE_DAC | WRITE_OWNER | GENERIC_WRITE | GENERIC_ALL)
#define RIGHTS_EVERYBODY 077u

/* Space for an identifier, aligned as one. */
typedef union rights_sid {
    SID sid;
    unsigned char capacity[SECURITY_MAX_SID_SIZE];
} rights_sid;

/* The identifier of this user, and that of who owns what this process makes: the administrators, when one of them was asked
   for consent. */
typedef struct rights_me {
    rights_sid user;
    rights_sid owner;
} rights_me;

/* One of the token's two identifiers: both classes of information begin with a pointer to it. */
static bool rights_of_token(HANDLE token, TOKEN_INFORMATION_CLASS which, rights_sid *sid)
{
    union {
        TOKEN_USER user;
        TOKEN_OWNER owner;
        unsigned char capacity[sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE];
    } answer;
    DWORD size = 0;
    if (GetTokenInformation(token, which, &answer, sizeof answer, &size) == 0) {
        return false;
    }
    return CopySid(sizeof *sid, &sid->sid, which == TokenUser ? answer.user.User.Sid : answer.owner.Owner) != 0;
}

static bool rights_find_me(rights_me *me)
{
    HANDLE token = NULL;
    if (OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token) == 0) {
        return false;
    }
    const bool found = rights_of_token(token, TokenUser, &me->user) && rights_of_token(token, TokenOwner, &me->owner);
    (void)CloseHandle(token);
    return found;
}

/* ---- as owner and mode ------------------------------------------------------------------------------------------- */

/* FNV-1a over the identifier. */
static uint32_t rights_number(PSID sid)
{
    const unsigned char *bytes = sid;
    const DWORD size = GetLengthSid(sid);
    uint32_t number = UINT32_C(2166136261);
    for (DWORD i = 0; i < size; i++) {
        number = (number ^ bytes[i]) * UINT32_C(16777619);
    }
    return number | 2u;
}

static bool rights_is_mine(const rights_me *me, PSID sid)
{
    return EqualSid(sid, (PSID)&me->user) != 0 || EqualSid(sid, (PSID)&me->owner) != 0;
}

/* Whether whoever the entry is for may do anything here anyway. */
static bool rights_is_trusted(const rights_me *me, PSID owner, PSID sid)
{
    return rights_is_mine(me, sid) || EqualSid(sid, owner) != 0 || IsWellKnownSid(sid, WinLocalSystemSid) != 0 ||
           IsWellKnownSid(sid, WinBuiltinAdministratorsSid) != 0 || IsWellKnownSid(sid, WinCreatorOwnerRightsSid) != 0;
}

static uint32_t rights_bits(DWORD mask)
{
    return ((mask & RIGHTS_READ) != 0 ? 4u : 0) | ((mask & RIGHTS_WRITE) != 0 ? 2u : 0);
}

/* No list at all allows everybody everything. Kinds of entries that are not known here allow as well: they name who they are for
   elsewhere, and count as for everybody. */
static uint32_t rights_mode(const rights_me *me, PSID owner, ACL *list)
{
    uint32_t mode = 0600;
    if (list == NULL) {
        return 0666;
    }
    for (DWORD i = 0; i < list->AceCount; i++) {
        void *found = NULL;
        if (GetAce(list, i, &found) == 0) {
            return 0666;
        }
        const ACCESS_ALLOWED_ACE *entry = found;
        const BYTE type = entry->Header.AceType;
        const bool inert = (entry->Header.AceFlags & INHERIT_ONLY_ACE) != 0 || type == ACCESS_DENIED_ACE_TYPE;
        const bool plain = type == ACCESS_ALLOWED_ACE_TYPE;
        if (!inert && !(plain && rights_is_trusted(me, owner, (PSID)&entry->SidStart))) {
            mode |= rights_bits(entry->Mask) * 011u;
        }
    }
    return mode;
}

/* Whether the file's system keeps lists at all. */
static bool rights_are_kept(HANDLE handle)
{
    DWORD flags = 0;
    return GetVolumeInformationByHandleW(handle, NULL, 0, NULL, NULL, &flags, NULL, 0) == 0 ||
           (flags & FILE_PERSISTENT_ACLS) != 0;
}

/* Two files whose owners are not known must not seem to have the same one. */
void coffer__os_rights_of(HANDLE handle, coffer__os_info *info)
{
    const SECURITY_INFORMATION wanted = OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION;
    PSECURITY_DESCRIPTOR descriptor = NULL;
    PSID owner = NULL;
    ACL *list = NULL;
    rights_me me;
    info->owner = COFFER__OS_NOT_KNOWN | UINT32_C(0x80000000) | (uint32_t)info->inode << 1;
    info->group = 0;
    info->mode = 0666;
    const DWORD error = GetSecurityInfo(handle, SE_FILE_OBJECT, wanted, &owner, NULL, &list, NULL, &descriptor);
    if (error == ERROR_SUCCESS && owner != NULL && rights_find_me(&me)) {
        info->owner = rights_is_mine(&me, owner) ? COFFER__OS_ME : rights_number(owner);
        info->mode = rights_mode(&me, owner, list);
    } else if (error != ERROR_ACCESS_DENIED && !rights_are_kept(handle)) {
        info->owner = COFFER__OS_ME;
        info->mode = 0600;
    }
    (void)LocalFree(descriptor);
    info->mode |= info->kind == COFFER__OS_DIRECTORY ? info->mode >> 2 & 0111u : 0;
}

/* ---- giving them ------------------------------------------------------------------------------------------------- */

/* One entry, for this user, and nothing that the folder would hand down. */
int coffer__os_make_private(coffer__os_privacy *privacy)
{
    rights_me me;
    ACL *list = &privacy->access.list;
    if (!rights_find_me(&me) || InitializeAcl(list, sizeof privacy->access, ACL_REVISION) == 0 ||
        AddAccessAllowedAce(list, ACL_REVISION, FILE_ALL_ACCESS, &me.user) == 0 ||
        InitializeSecurityDescriptor(&privacy->descriptor, SECURITY_DESCRIPTOR_REVISION) == 0 ||
        SetSecurityDescriptorDacl(&privacy->descriptor, TRUE, list, FALSE) == 0 ||
        SetSecurityDescriptorControl(&privacy->descriptor, SE_DACL_PROTECTED, SE_DACL_PROTECTED) == 0) {
        return coffer__os_last_errno();
    }
    privacy->attributes = (SECURITY_ATTRIBUTES){ .nLength = sizeof privacy->attributes,
                                                 .lpSecurityDescriptor = &privacy->descriptor,
                                                 .bInheritHandle = FALSE };
    return 0;
}

/* Protected, so that the folder hands nothing down that the old file did not have. Not by SetSecurityInfo, which Wine 8 calls
   done without doing it. */
static DWORD rights_give_list(HANDLE to, ACL *list)
{
    const SECURITY_INFORMATION what = DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION;
    SECURITY_DESCRIPTOR descriptor;
    if (InitializeSecurityDescriptor(&descriptor, SECURITY_DESCRIPTOR_REVISION) == 0 ||
        SetSecurityDescriptorDacl(&descriptor, TRUE, list, FALSE) == 0 ||
        SetSecurityDescriptorControl(&descriptor, SE_DACL_PROTECTED, SE_DACL_PROTECTED) == 0 ||
        SetKernelObjectSecurity(to, what, &descriptor) == 0) {
        return GetLastError();
    }
    return ERROR_SUCCESS;
}

/* When the old file's list cannot be read, nobody knows who may do what, and only the owner keeps anything. */
static DWORD rights_copy_list(HANDLE from, HANDLE to)
{
    PSECURITY_DESCRIPTOR descriptor = NULL;
    ACL *list = NULL;
    coffer__os_privacy privacy;
    DWORD error =
        GetSecurityInfo(from, SE_FILE_OBJECT, DACL_SECURITY_INFORMATION, NULL, NULL, &list, NULL, &descriptor);
    if (error == ERROR_SUCCESS) {
        error = rights_give_list(to, list);
    } else if (coffer__os_make_private(&privacy) == 0) {
        error = rights_give_list(to, &privacy.access.list);
    }
    (void)LocalFree(descriptor);
    return error;
}

/* The mark against writing is an attribute here, and no part of the list. */
static void rights_copy_read_only(HANDLE from, HANDLE to)
{
    FILE_BASIC_INFO old;
    FILE_BASIC_INFO now;
    if (GetFileInformationByHandleEx(from, FileBasicInfo, &old, sizeof old) != 0 &&
        GetFileInformationByHandleEx(to, FileBasicInfo, &now, sizeof now) != 0 &&
        ((old.FileAttributes ^ now.FileAttributes) & FILE_ATTRIBUTE_READONLY) != 0) {
        FILE_BASIC_INFO change = { .FileAttributes = now.FileAttributes ^ FILE_ATTRIBUTE_READONLY };
        (void)SetFileInformationByHandle(to, FileBasicInfo, &change, sizeof change);
    }
}

/* The owner of a new file is this user; giving it away needs a privilege, so it is not tried: the old owner keeps what
   the list says. The program's descriptor may lack the right to change the list, which a second handle has. */
int coffer__os_take_owner_and_mode(int fd, const coffer__os_info *info, const char *path)
{
    (void)info;
    const DWORD rights = READ_CONTROL | WRITE_DAC | FILE_READ_ATTRIBUTES | FILE_WRITE_ATTRIBUTES;
    HANDLE from = INVALID_HANDLE_VALUE;
    const int os_error =
        coffer__os_open_handle(path, READ_CONTROL | FILE_READ_ATTRIBUTES, OPEN_EXISTING, 0, NULL, &from);
    if (os_error != 0) {
        return os_error;
    }
    const HANDLE own = coffer__os_handle(fd);
    const HANDLE again =
        ReOpenFile(own, rights, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, FILE_FLAG_BACKUP_SEMANTICS);
    const HANDLE to = again != INVALID_HANDLE_VALUE ? again : own;
    const DWORD error = rights_are_kept(to) ? rights_copy_list(from, to) : ERROR_SUCCESS;
    if (error == ERROR_SUCCESS) {
        rights_copy_read_only(from, to);
    }
    if (again != INVALID_HANDLE_VALUE) {
        (void)CloseHandle(again);
    }
    (void)CloseHandle(from);
    return error == ERROR_SUCCESS ? 0 : coffer__os_errno(error);
}

#endif
