# SPDX-License-Identifier: Apache-2.0
"""An object store on the loopback interface: moto, for test_network_store.py, in the environment of tests/requirements-moto.txt.

Reads a line of JSON, {key: path of the object's file}, makes the store, and writes a line of JSON: where it is, and credentials
of a user who may read objects, of a session of a role that may, and of a user who may do nothing. Serves until its input ends.

moto checks signatures only when it is told to, and then as botocore would have signed the request that came: key, secret, session
token, method, path, query, the headers that are said to be signed, x-amz-content-sha256 as it was sent, and what the user is
allowed. It does not look at the date, nor whether the region is the bucket's, nor whether headers that should be signed are.
"""

import json
import pathlib
import sys

import boto3
import moto.settings
from moto.server import ThreadedMotoServer

ALLOWED = json.dumps({"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}})
TRUST = json.dumps({"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}})


def make_user(iam, name):
    iam.create_user(UserName=name)
    made = iam.create_access_key(UserName=name)["AccessKey"]
    return {"AWS_ACCESS_KEY_ID": made["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": made["SecretAccessKey"]}


def make_session(iam, sts):
    role = iam.create_role(RoleName="reading", AssumeRolePolicyDocument=TRUST)["Role"]
    iam.put_role_policy(RoleName="reading", PolicyName="reads", PolicyDocument=ALLOWED)
    made = sts.assume_role(RoleArn=role["Arn"], RoleSessionName="session")["Credentials"]
    return {"AWS_ACCESS_KEY_ID": made["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": made["SecretAccessKey"],
            "AWS_SESSION_TOKEN": made["SessionToken"]}  # fmt: skip


def main():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://127.0.0.1:%d" % server.get_host_and_port()[1]

    def client(service):
        return boto3.client(service, endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")

    iam, s3 = client("iam"), client("s3")
    user = make_user(iam, "reader")
    iam.put_user_policy(UserName="reader", PolicyName="reads", PolicyDocument=ALLOWED)
    session = make_session(iam, client("sts"))
    nobody = make_user(iam, "nobody")
    s3.create_bucket(Bucket="bucket")
    for key, path in json.loads(sys.stdin.readline()).items():
        s3.put_object(Bucket="bucket", Key=key, Body=pathlib.Path(path).read_bytes(), ChecksumAlgorithm="SHA256")
    moto.settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    print(json.dumps({"endpoint": endpoint, "user": user, "session": session, "nobody": nobody}), flush=True)
    sys.stdin.read()
    server.stop()


main()
