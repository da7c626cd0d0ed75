"""The fields of the specs of pods and of the kinds that create them, by type.

`make podfields` generates it. Each minor has what its predecessor has.
"""

# Type to fields, by the first supported minor that has them. A field is `name`, or `name:Type` if it has
# fields of its own.
FIELDS: dict[int, dict[str, str]] = {
    36: {
        "AWSElasticBlockStoreVolumeSource": "fsType partition readOnly volumeID",
        "Affinity": "nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity",
        "AppArmorProfile": "localhostProfile type",
        "AzureDiskVolumeSource": "cachingMode diskName diskURI fsType kind readOnly",
        "AzureFileVolumeSource": "readOnly secretName shareName",
        "CSIVolumeSource": (
            "driver fsType nodePublishSecretRef:LocalObjectReference readOnly volumeAttributes"
        ),
        "Capabilities": "add drop",
        "CephFSVolumeSource": "monitors path readOnly secretFile secretRef:LocalObjectReference user",
        "CinderVolumeSource": "fsType readOnly secretRef:LocalObjectReference volumeID",
        "ClusterTrustBundleProjection": "labelSelector:LabelSelector name optional path signerName",
        "ConfigMapEnvSource": "name optional",
        "ConfigMapKeySelector": "key name optional",
        "ConfigMapProjection": "items:KeyToPath name optional",
        "ConfigMapVolumeSource": "defaultMode items:KeyToPath name optional",
        "Container": (
            "args command env:EnvVar envFrom:EnvFromSource image imagePullPolicy lifecycle:Lifecycle "
            "livenessProbe:Probe name ports:ContainerPort readinessProbe:Probe "
            "resizePolicy:ContainerResizePolicy resources:ResourceRequirements restartPolicy "
            "restartPolicyRules:ContainerRestartRule securityContext:SecurityContext startupProbe:Probe "
            "stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices:VolumeDevice "
            "volumeMounts:VolumeMount workingDir"
        ),
        "ContainerPort": "containerPort hostIP hostPort name protocol",
        "ContainerResizePolicy": "resourceName restartPolicy",
        "ContainerRestartRule": "action exitCodes:ContainerRestartRuleOnExitCodes",
        "ContainerRestartRuleOnExitCodes": "operator values",
        "CronJobSpec": (
            "concurrencyPolicy failedJobsHistoryLimit jobTemplate:JobTemplateSpec schedule "
            "startingDeadlineSeconds successfulJobsHistoryLimit suspend timeZone"
        ),
        "DaemonSetSpec": (
            "minReadySeconds revisionHistoryLimit selector:LabelSelector template:PodTemplateSpec "
            "updateStrategy:DaemonSetUpdateStrategy"
        ),
        "DaemonSetUpdateStrategy": "rollingUpdate:RollingUpdateDaemonSet type",
        "DeploymentSpec": (
            "minReadySeconds paused progressDeadlineSeconds replicas revisionHistoryLimit "
            "selector:LabelSelector strategy:DeploymentStrategy template:PodTemplateSpec"
        ),
        "DeploymentStrategy": "rollingUpdate:RollingUpdateDeployment type",
        "DownwardAPIProjection": "items:DownwardAPIVolumeFile",
        "DownwardAPIVolumeFile": (
            "fieldRef:ObjectFieldSelector mode path resourceFieldRef:ResourceFieldSelector"
        ),
        "DownwardAPIVolumeSource": "defaultMode items:DownwardAPIVolumeFile",
        "EmptyDirVolumeSource": "medium sizeLimit",
        "EnvFromSource": "configMapRef:ConfigMapEnvSource prefix secretRef:SecretEnvSource",
        "EnvVar": "name value valueFrom:EnvVarSource",
        "EnvVarSource": (
            "configMapKeyRef:ConfigMapKeySelector fieldRef:ObjectFieldSelector fileKeyRef:FileKeySelector "
            "resourceFieldRef:ResourceFieldSelector secretKeyRef:SecretKeySelector"
        ),
        "EphemeralContainer": (
            "args command env:EnvVar envFrom:EnvFromSource image imagePullPolicy lifecycle:Lifecycle "
            "livenessProbe:Probe name ports:ContainerPort readinessProbe:Probe "
            "resizePolicy:ContainerResizePolicy resources:ResourceRequirements restartPolicy "
            "restartPolicyRules:ContainerRestartRule securityContext:SecurityContext startupProbe:Probe "
            "stdin stdinOnce targetContainerName terminationMessagePath terminationMessagePolicy tty "
            "volumeDevices:VolumeDevice volumeMounts:VolumeMount workingDir"
        ),
        "EphemeralVolumeSource": "volumeClaimTemplate:PersistentVolumeClaimTemplate",
        "ExecAction": "command",
        "FCVolumeSource": "fsType lun readOnly targetWWNs wwids",
        "FileKeySelector": "key optional path volumeName",
        "FlexVolumeSource": "driver fsType options readOnly secretRef:LocalObjectReference",
        "FlockerVolumeSource": "datasetName datasetUUID",
        "GCEPersistentDiskVolumeSource": "fsType partition pdName readOnly",
        "GRPCAction": "port service",
        "GitRepoVolumeSource": "directory repository revision",
        "GlusterfsVolumeSource": "endpoints path readOnly",
        "HTTPGetAction": "host httpHeaders:HTTPHeader path port scheme",
        "HTTPHeader": "name value",
        "HostAlias": "hostnames ip",
        "HostPathVolumeSource": "path type",
        "ISCSIVolumeSource": (
            "chapAuthDiscovery chapAuthSession fsType initiatorName iqn iscsiInterface lun portals readOnly "
            "secretRef:LocalObjectReference targetPortal"
        ),
        "ImageVolumeSource": "pullPolicy reference",
        "JobSpec": (
            "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions managedBy "
            "manualSelector maxFailedIndexes parallelism podFailurePolicy:PodFailurePolicy "
            "podReplacementPolicy selector:LabelSelector successPolicy:SuccessPolicy suspend "
            "template:PodTemplateSpec ttlSecondsAfterFinished"
        ),
        "JobTemplateSpec": "metadata:ObjectMeta spec:JobSpec",
        "KeyToPath": "key mode path",
        "LabelSelector": "matchExpressions:LabelSelectorRequirement matchLabels",
        "LabelSelectorRequirement": "key operator values",
        "Lifecycle": "postStart:LifecycleHandler preStop:LifecycleHandler stopSignal",
        "LifecycleHandler": (
            "exec:ExecAction httpGet:HTTPGetAction sleep:SleepAction tcpSocket:TCPSocketAction"
        ),
        "LocalObjectReference": "name",
        "ManagedFieldsEntry": "apiVersion fieldsType fieldsV1 manager operation subresource time",
        "ModifyVolumeStatus": "status targetVolumeAttributesClassName",
        "NFSVolumeSource": "path readOnly server",
        "NodeAffinity": (
            "preferredDuringSchedulingIgnoredDuringExecution:PreferredSchedulingTerm "
            "requiredDuringSchedulingIgnoredDuringExecution:NodeSelector"
        ),
        "NodeSelector": "nodeSelectorTerms:NodeSelectorTerm",
        "NodeSelectorRequirement": "key operator values",
        "NodeSelectorTerm": "matchExpressions:NodeSelectorRequirement matchFields:NodeSelectorRequirement",
        "ObjectFieldSelector": "apiVersion fieldPath",
        "ObjectMeta": (
            "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers "
            "generateName generation labels managedFields:ManagedFieldsEntry name namespace "
            "ownerReferences:OwnerReference resourceVersion selfLink uid"
        ),
        "OwnerReference": "apiVersion blockOwnerDeletion controller kind name uid",
        "PersistentVolumeClaim": (
            "apiVersion kind metadata:ObjectMeta spec:PersistentVolumeClaimSpec "
            "status:PersistentVolumeClaimStatus"
        ),
        "PersistentVolumeClaimCondition": "lastProbeTime lastTransitionTime message reason status type",
        "PersistentVolumeClaimSpec": (
            "accessModes dataSource:TypedLocalObjectReference dataSourceRef:TypedObjectReference "
            "resources:VolumeResourceRequirements selector:LabelSelector storageClassName "
            "volumeAttributesClassName volumeMode volumeName"
        ),
        "PersistentVolumeClaimStatus": (
            "accessModes allocatedResourceStatuses allocatedResources capacity "
            "conditions:PersistentVolumeClaimCondition currentVolumeAttributesClassName "
            "modifyVolumeStatus:ModifyVolumeStatus phase"
        ),
        "PersistentVolumeClaimTemplate": "metadata:ObjectMeta spec:PersistentVolumeClaimSpec",
        "PersistentVolumeClaimVolumeSource": "claimName readOnly",
        "PhotonPersistentDiskVolumeSource": "fsType pdID",
        "PodAffinity": (
            "preferredDuringSchedulingIgnoredDuringExecution:WeightedPodAffinityTerm "
            "requiredDuringSchedulingIgnoredDuringExecution:PodAffinityTerm"
        ),
        "PodAffinityTerm": (
            "labelSelector:LabelSelector matchLabelKeys mismatchLabelKeys namespaceSelector:LabelSelector "
            "namespaces topologyKey"
        ),
        "PodAntiAffinity": (
            "preferredDuringSchedulingIgnoredDuringExecution:WeightedPodAffinityTerm "
            "requiredDuringSchedulingIgnoredDuringExecution:PodAffinityTerm"
        ),
        "PodCertificateProjection": (
            "certificateChainPath credentialBundlePath keyPath keyType maxExpirationSeconds signerName "
            "userAnnotations"
        ),
        "PodDNSConfig": "nameservers options:PodDNSConfigOption searches",
        "PodDNSConfigOption": "name value",
        "PodFailurePolicy": "rules:PodFailurePolicyRule",
        "PodFailurePolicyOnExitCodesRequirement": "containerName operator values",
        "PodFailurePolicyOnPodConditionsPattern": "status type",
        "PodFailurePolicyRule": (
            "action onExitCodes:PodFailurePolicyOnExitCodesRequirement "
            "onPodConditions:PodFailurePolicyOnPodConditionsPattern"
        ),
        "PodOS": "name",
        "PodReadinessGate": "conditionType",
        "PodResourceClaim": "name resourceClaimName resourceClaimTemplateName",
        "PodSchedulingGate": "name",
        "PodSchedulingGroup": "podGroupName",
        "PodSecurityContext": (
            "appArmorProfile:AppArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser "
            "seLinuxChangePolicy seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile "
            "supplementalGroups supplementalGroupsPolicy sysctls:Sysctl "
            "windowsOptions:WindowsSecurityContextOptions"
        ),
        "PodSpec": (
            "activeDeadlineSeconds affinity:Affinity automountServiceAccountToken containers:Container "
            "dnsConfig:PodDNSConfig dnsPolicy enableServiceLinks ephemeralContainers:EphemeralContainer "
            "hostAliases:HostAlias hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride "
            "imagePullSecrets:LocalObjectReference initContainers:Container nodeName nodeSelector os:PodOS "
            "overhead preemptionPolicy priority priorityClassName readinessGates:PodReadinessGate "
            "resourceClaims:PodResourceClaim resources:ResourceRequirements restartPolicy runtimeClassName "
            "schedulerName schedulingGates:PodSchedulingGate schedulingGroup:PodSchedulingGroup "
            "securityContext:PodSecurityContext serviceAccount serviceAccountName setHostnameAsFQDN "
            "shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations:Toleration "
            "topologySpreadConstraints:TopologySpreadConstraint volumes:Volume"
        ),
        "PodTemplateSpec": "metadata:ObjectMeta spec:PodSpec",
        "PortworxVolumeSource": "fsType readOnly volumeID",
        "PreferredSchedulingTerm": "preference:NodeSelectorTerm weight",
        "Probe": (
            "exec:ExecAction failureThreshold grpc:GRPCAction httpGet:HTTPGetAction initialDelaySeconds "
            "periodSeconds successThreshold tcpSocket:TCPSocketAction terminationGracePeriodSeconds "
            "timeoutSeconds"
        ),
        "ProjectedVolumeSource": "defaultMode sources:VolumeProjection",
        "QuobyteVolumeSource": "group readOnly registry tenant user volume",
        "RBDVolumeSource": "fsType image keyring monitors pool readOnly secretRef:LocalObjectReference user",
        "ReplicaSetSpec": "minReadySeconds replicas selector:LabelSelector template:PodTemplateSpec",
        "ResourceClaim": "name request",
        "ResourceFieldSelector": "containerName divisor resource",
        "ResourceRequirements": "claims:ResourceClaim limits requests",
        "RollingUpdateDaemonSet": "maxSurge maxUnavailable",
        "RollingUpdateDeployment": "maxSurge maxUnavailable",
        "RollingUpdateStatefulSetStrategy": "maxUnavailable partition",
        "SELinuxOptions": "level role type user",
        "ScaleIOVolumeSource": (
            "fsType gateway protectionDomain readOnly secretRef:LocalObjectReference sslEnabled storageMode "
            "storagePool system volumeName"
        ),
        "SeccompProfile": "localhostProfile type",
        "SecretEnvSource": "name optional",
        "SecretKeySelector": "key name optional",
        "SecretProjection": "items:KeyToPath name optional",
        "SecretVolumeSource": "defaultMode items:KeyToPath optional secretName",
        "SecurityContext": (
            "allowPrivilegeEscalation appArmorProfile:AppArmorProfile capabilities:Capabilities privileged "
            "procMount readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser "
            "seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile "
            "windowsOptions:WindowsSecurityContextOptions"
        ),
        "ServiceAccountTokenProjection": "audience expirationSeconds path",
        "SleepAction": "seconds",
        "StatefulSetOrdinals": "start",
        "StatefulSetPersistentVolumeClaimRetentionPolicy": "whenDeleted whenScaled",
        "StatefulSetSpec": (
            "minReadySeconds ordinals:StatefulSetOrdinals "
            "persistentVolumeClaimRetentionPolicy:StatefulSetPersistentVolumeClaimRetentionPolicy "
            "podManagementPolicy replicas revisionHistoryLimit selector:LabelSelector serviceName "
            "template:PodTemplateSpec updateStrategy:StatefulSetUpdateStrategy "
            "volumeClaimTemplates:PersistentVolumeClaim"
        ),
        "StatefulSetUpdateStrategy": "rollingUpdate:RollingUpdateStatefulSetStrategy type",
        "StorageOSVolumeSource": "fsType readOnly secretRef:LocalObjectReference volumeName volumeNamespace",
        "SuccessPolicy": "rules:SuccessPolicyRule",
        "SuccessPolicyRule": "succeededCount succeededIndexes",
        "Sysctl": "name value",
        "TCPSocketAction": "host port",
        "Toleration": "effect key operator tolerationSeconds value",
        "TopologySpreadConstraint": (
            "labelSelector:LabelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy "
            "nodeTaintsPolicy topologyKey whenUnsatisfiable"
        ),
        "TypedLocalObjectReference": "apiGroup kind name",
        "TypedObjectReference": "apiGroup kind name namespace",
        "Volume": (
            "awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource "
            "azureFile:AzureFileVolumeSource cephfs:CephFSVolumeSource cinder:CinderVolumeSource "
            "configMap:ConfigMapVolumeSource csi:CSIVolumeSource downwardAPI:DownwardAPIVolumeSource "
            "emptyDir:EmptyDirVolumeSource ephemeral:EphemeralVolumeSource fc:FCVolumeSource "
            "flexVolume:FlexVolumeSource flocker:FlockerVolumeSource "
            "gcePersistentDisk:GCEPersistentDiskVolumeSource gitRepo:GitRepoVolumeSource "
            "glusterfs:GlusterfsVolumeSource hostPath:HostPathVolumeSource image:ImageVolumeSource "
            "iscsi:ISCSIVolumeSource name nfs:NFSVolumeSource "
            "persistentVolumeClaim:PersistentVolumeClaimVolumeSource "
            "photonPersistentDisk:PhotonPersistentDiskVolumeSource portworxVolume:PortworxVolumeSource "
            "projected:ProjectedVolumeSource quobyte:QuobyteVolumeSource rbd:RBDVolumeSource "
            "scaleIO:ScaleIOVolumeSource secret:SecretVolumeSource storageos:StorageOSVolumeSource "
            "vsphereVolume:VsphereVirtualDiskVolumeSource"
        ),
        "VolumeDevice": "devicePath name",
        "VolumeMount": "mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr",
        "VolumeProjection": (
            "clusterTrustBundle:ClusterTrustBundleProjection configMap:ConfigMapProjection "
            "downwardAPI:DownwardAPIProjection podCertificate:PodCertificateProjection "
            "secret:SecretProjection serviceAccountToken:ServiceAccountTokenProjection"
        ),
        "VolumeResourceRequirements": "limits requests",
        "VsphereVirtualDiskVolumeSource": "fsType storagePolicyID storagePolicyName volumePath",
        "WeightedPodAffinityTerm": "podAffinityTerm:PodAffinityTerm weight",
        "WindowsSecurityContextOptions": (
            "gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName"
        ),
    },
    37: {
        "ClusterTrustBundleProjection": "user",
        "ConfigMapVolumeSource": "defaultUser",
        "DownwardAPIVolumeFile": "user",
        "DownwardAPIVolumeSource": "defaultUser",
        "EmptyDirVolumeSource": "mode",
        "EvictionResponder": "name priority",
        "GRPCAction": "mode",
        "HTTPGetAction": "protocol",
        "JobSchedulingConfiguration": (
            "disruptionMode:WorkloadPodGroupDisruptionMode resourceClaims:WorkloadPodGroupResourceClaim "
            "schedulingConstraints:WorkloadPodGroupSchedulingConstraints "
            "schedulingPolicy:WorkloadPodGroupSchedulingPolicy"
        ),
        "JobSpec": "scheduling:JobSchedulingConfiguration",
        "KeyToPath": "user",
        "PersistentVolumeClaimStatus": "healthStatus:VolumeHealthStatus",
        "PodCertificateProjection": "user",
        "PodSpec": "evictionResponders:EvictionResponder",
        "ProjectedVolumeSource": "defaultUser",
        "SecretVolumeSource": "defaultUser",
        "ServiceAccountTokenProjection": "user",
        "TopologyConstraint": "key",
        "VolumeHealthCondition": "message reason status",
        "VolumeHealthStatus": "healthConditions:VolumeHealthCondition lastTransitionTime",
        "VolumeMount": "bindMountOptions",
        "WorkloadPodGroupDisruptionMode": "all single",
        "WorkloadPodGroupGangSchedulingPolicy": "minCount",
        "WorkloadPodGroupResourceClaim": "name resourceClaimName resourceClaimTemplateName",
        "WorkloadPodGroupSchedulingConstraints": "topology:TopologyConstraint",
        "WorkloadPodGroupSchedulingPolicy": "basic gang:WorkloadPodGroupGangSchedulingPolicy",
    },
}

# `Type.field` of required fields to the server's words on their absence, by the first supported minor that
# says them. Without words an absent field counts as an empty object.
REQUIRED: dict[int, dict[str, str]] = {
    36: {
        "AWSElasticBlockStoreVolumeSource.volumeID": "Required value",
        "AppArmorProfile.type": "Required value: type is required when appArmorProfile is set",
        "AzureDiskVolumeSource.diskName": "Required value",
        "AzureDiskVolumeSource.diskURI": "Required value",
        "AzureFileVolumeSource.secretName": "Required value",
        "AzureFileVolumeSource.shareName": "Required value",
        "CSIVolumeSource.driver": "Required value",
        "CephFSVolumeSource.monitors": "Required value",
        "CinderVolumeSource.volumeID": "Required value",
        "ConfigMapKeySelector.key": "Required value",
        "Container.image": "Required value",
        "Container.name": "Required value",
        "ContainerPort.containerPort": "Required value",
        "ContainerResizePolicy.resourceName": "Required value",
        "ContainerResizePolicy.restartPolicy": "Required value",
        "ContainerRestartRule.action": (
            'Unsupported value: "": supported values: "Restart", "RestartAllContainers"'
        ),
        "ContainerRestartRuleOnExitCodes.operator": 'Unsupported value: "": supported values: "In", "NotIn"',
        "CronJobSpec.jobTemplate": "",
        "CronJobSpec.schedule": "Required value",
        "DaemonSetSpec.template": "",
        "DeploymentSpec.selector": "Required value",
        "DeploymentSpec.template": "",
        "DownwardAPIVolumeFile.path": "Required value",
        "EnvVar.name": "Required value",
        "EphemeralContainer.image": "Required value",
        "EphemeralContainer.name": "Required value",
        "FileKeySelector.key": "Required value",
        "FileKeySelector.path": "Required value",
        "FileKeySelector.volumeName": "Required value",
        "FlexVolumeSource.driver": "Required value",
        "GCEPersistentDiskVolumeSource.pdName": "Required value",
        "GRPCAction.port": "Invalid value: 0: must be between 1 and 65535, inclusive",
        "GitRepoVolumeSource.repository": "Required value",
        "GlusterfsVolumeSource.endpoints": "Required value",
        "GlusterfsVolumeSource.path": "Required value",
        "HTTPGetAction.port": "Invalid value: 0: must be between 1 and 65535, inclusive",
        "HTTPHeader.name": (
            "Invalid value: \"\": a valid HTTP header must consist of alphanumeric characters or '-' "
            "(e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
        ),
        "HostAlias.ip": 'Invalid value: "": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        "HostPathVolumeSource.path": "Required value",
        "ISCSIVolumeSource.iqn": "Required value",
        "ISCSIVolumeSource.targetPortal": "Required value",
        "JobSpec.template": "",
        "JobTemplateSpec.spec": "",
        "KeyToPath.key": "Required value",
        "KeyToPath.path": "Required value",
        "LabelSelectorRequirement.key": 'Invalid value: "": name part must be non-empty',
        "LabelSelectorRequirement.operator": 'Invalid value: "": not a valid selector operator',
        "NFSVolumeSource.path": "Required value",
        "NFSVolumeSource.server": "Required value",
        "NodeSelector.nodeSelectorTerms": "Required value: must have at least one node selector term",
        "NodeSelectorRequirement.key": 'Invalid value: "": name part must be non-empty',
        "NodeSelectorRequirement.operator": 'Invalid value: "": not a valid selector operator',
        "ObjectFieldSelector.fieldPath": "Required value",
        "PersistentVolumeClaimVolumeSource.claimName": "Required value",
        "PhotonPersistentDiskVolumeSource.pdID": "Required value",
        "PodAffinityTerm.topologyKey": "Required value: can not be empty",
        "PodFailurePolicyOnExitCodesRequirement.operator": 'Required value: valid values: ["In" "NotIn"]',
        "PodFailurePolicyOnExitCodesRequirement.values": (
            "Invalid value: null: at least one value is required"
        ),
        "PodFailurePolicyOnPodConditionsPattern.type": 'Invalid value: "": name part must be non-empty',
        "PodFailurePolicyRule.action": (
            'Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]'
        ),
        "PodOS.name": "Required value",
        "PodReadinessGate.conditionType": 'Invalid value: "": name part must be non-empty',
        "PodResourceClaim.name": "Required value",
        "PodSchedulingGate.name": 'Invalid value: "": name part must be non-empty',
        "PodSpec.containers": "Required value",
        "PodTemplateSpec.spec": "",
        "PortworxVolumeSource.volumeID": "Required value",
        "PreferredSchedulingTerm.weight": "Invalid value: 0: must be in the range 1-100",
        "QuobyteVolumeSource.registry": (
            "Required value: must be a host:port pair or multiple pairs separated by commas"
        ),
        "QuobyteVolumeSource.volume": "Required value",
        "RBDVolumeSource.image": "Required value",
        "RBDVolumeSource.monitors": "Required value",
        "ReplicaSetSpec.selector": "Required value",
        "ReplicaSetSpec.template": "",
        "ResourceClaim.name": "Required value",
        "ResourceFieldSelector.resource": "Required value",
        "ScaleIOVolumeSource.gateway": "Required value",
        "ScaleIOVolumeSource.system": "Required value",
        "SeccompProfile.type": "Required value: type is required when seccompProfile is set",
        "SecretKeySelector.key": "Required value",
        "ServiceAccountTokenProjection.path": "Required value",
        "StatefulSetSpec.selector": "Required value",
        "StatefulSetSpec.template": "",
        "Sysctl.name": "Required value",
        "TCPSocketAction.port": "Invalid value: 0: must be between 1 and 65535, inclusive",
        "TopologySpreadConstraint.maxSkew": "Invalid value: 0: must be greater than zero",
        "TopologySpreadConstraint.topologyKey": "Required value: can not be empty",
        "TopologySpreadConstraint.whenUnsatisfiable": (
            'Unsupported value: "": supported values: "DoNotSchedule", "ScheduleAnyway"'
        ),
        "TypedLocalObjectReference.kind": "Required value",
        "TypedLocalObjectReference.name": "Required value",
        "TypedObjectReference.kind": "Required value",
        "TypedObjectReference.name": "Required value",
        "Volume.name": "Required value",
        "VolumeDevice.devicePath": "Required value",
        "VolumeDevice.name": "Required value",
        "VolumeMount.mountPath": "Required value",
        "VolumeMount.name": "Required value",
        "VsphereVirtualDiskVolumeSource.volumePath": "Required value",
        "WeightedPodAffinityTerm.podAffinityTerm": "",
        "WeightedPodAffinityTerm.weight": "Invalid value: 0: must be in the range 1-100",
    },
    37: {
        "ClusterTrustBundleProjection.path": "Required value",
        "PodCertificateProjection.keyType": (
            'Unsupported value: "": supported values: "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", '
            '"ECDSAP521", "ED25519"'
        ),
        "PodCertificateProjection.signerName": "Required value",
    },
}
